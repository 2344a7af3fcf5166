// The phone's rule and its buffer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { from } from "./modules.mjs";

const { decide, toFix } = await from("phone_filter");
const { FixQueue, MOST_FIXES } = await from("phone_queue");
const RULES = { minDistanceM: 10, heartbeatS: 60 };
const NORTH_1_M = 1 / 111_195;

const fix = (metres, over = {}) => ({ lat: 50 + metres * NORTH_1_M, lon: 5, fixed_at: 1000, ...over });
const at = (metres, accuracy, seconds = 1) => fix(metres, { accuracy_m: accuracy, fixed_at: 1000 + seconds * 1000 });

const TABLE = [
  ["the first fix goes", null, at(0, 5), "first", true],
  ["nine metres stay", at(0, 5, 0), at(9, 5), "not moved", false],
  ["eleven metres go", at(0, 5, 0), at(11, 5), "moved", true],
  ["unknown accuracy counts as precise", at(0, undefined, 0), at(11, undefined), "moved", true],
  ["thirty metres within poor accuracy stay", at(0, 40, 0), at(30, 12), "not moved", false],
  ["more than both accuracies go", at(0, 40, 0), at(53, 12), "moved", true],
  ["one poor accuracy is enough for the sum", at(0, 11, 0), at(14, 5), "not moved", false],
  ["a minute of standing is told", at(0, 5, 0), at(0, 5, 60), "heartbeat", true],
  ["a reading that is not newer stays", at(0, 5, 5), at(500, 5, 5), "not newer", false],
];
for (const [name, last, next, reason, send] of TABLE) {
  test(name, () => assert.deepEqual(decide(last, next, RULES), { send, reason }));
}

test("a browser's position becomes a fix without what it does not know", () => {
  const coords = { latitude: 1, longitude: 2, accuracy: 30, speed: null, heading: NaN, altitude: 12 };
  assert.deepEqual(toFix({ coords, timestamp: 5.4 }), { lat: 1, lon: 2, fixed_at: 5, accuracy_m: 30, altitude_m: 12 });
});

function storage(initial) {
  const kept = new Map(initial ? [["drover.phone.queue", initial]] : []);
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
}

test("what is not answered survives a reload, oldest first", () => {
  const kept = storage();
  const queue = new FixQueue(kept);
  const ids = [1, 2, 3].map((metres) => queue.push(fix(metres)));
  queue.remove([ids[0]]);
  assert.deepEqual(new FixQueue(kept).oldest(9).map(({ id }) => id), ids.slice(1));
});

test("a full buffer gives up the oldest and counts them", () => {
  const queue = new FixQueue(storage());
  const ids = Array.from({ length: MOST_FIXES + 2 }, (_, i) => queue.push(fix(i)));
  assert.equal(queue.size, MOST_FIXES);
  assert.equal(queue.dropped, 2);
  assert.equal(queue.oldest(1)[0].id, ids[2]);
});

test("a damaged buffer is an empty one", () => {
  for (const damage of ["{", "7", '[null, {"id": 1}]']) assert.equal(new FixQueue(storage(damage)).size, 0);
});

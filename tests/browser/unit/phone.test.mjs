// The phone's rule and its buffer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { from } from "./modules.mjs";

const { decide, toFix } = await from("phone_filter");
const { FixQueue, MOST_FIXES } = await from("phone_queue");
const { Tracker } = await from("phone_tracker");
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

function queueOf(token, kept = storage()) {
  const queue = new FixQueue(kept);
  queue.belongTo(token);
  return queue;
}

function storage(initial) {
  const kept = new Map(initial ? [["drover.phone.queue", initial]] : []);
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
}

test("what is not answered survives a reload, oldest first", () => {
  const kept = storage();
  const queue = queueOf("mine", kept);
  const ids = [1, 2, 3].map((metres) => queue.push(fix(metres)));
  queue.remove([ids[0]]);
  assert.deepEqual(queueOf("mine", kept).oldest(9).map(({ id }) => id), ids.slice(1));
});

test("a full buffer gives up the oldest and counts them", () => {
  const queue = queueOf("mine");
  const ids = Array.from({ length: MOST_FIXES + 2 }, (_, i) => queue.push(fix(i)));
  assert.equal(queue.size, MOST_FIXES);
  assert.equal(queue.dropped, 2);
  assert.equal(queue.oldest(1)[0].id, ids[2]);
});

test("a damaged buffer is an empty one", () => {
  for (const damage of ["{", "7", '[null, {"id": 1}]']) assert.equal(new FixQueue(storage(damage)).size, 0);
});

test("what waits under one token is nobody else's, and is found again over a reload", () => {
  const kept = storage();
  const queue = queueOf("first", kept);
  const ids = [1, 2].map((metres) => queue.push(fix(metres)));
  queue.stopWaits = true;
  queue.belongTo("second");
  queue.push(fix(3));
  queue.stopWaits = false;
  assert.deepEqual([queue.size, queue.stopWaits], [1, false]);
  const again = queueOf("first", kept);
  assert.deepEqual(again.oldest(9).map(({ id }) => id), ids);
  assert.equal(again.stopWaits, true);
  assert.equal(queueOf(null, kept).size, 0);
});

test("the storage never names a token, and all tokens share its bound", () => {
  const kept = storage();
  const queue = queueOf("dr_secret", kept);
  for (let i = 0; i < MOST_FIXES; i += 1) queue.push(fix(i));
  queue.belongTo("second");
  queue.push(fix(1));
  assert.equal(JSON.parse(kept.getItem("drover.phone.queue")).length, MOST_FIXES);
  assert.ok(!kept.getItem("drover.phone.queue").includes("dr_secret"));
});

test("a tracker sends only its own token's fixes, and its counts add up", async () => {
  const queue = queueOf("wrong");
  queue.push(fix(1));
  queue.stopWaits = true;
  const tracker = new Tracker(queue, { onChange: () => {} });
  const asked = [];
  tracker.use({ ready: true, ask: async (message) => { asked.push(message.type); return { result: "accepted" }; } });
  tracker.belongTo("right");
  await tracker.pump();
  assert.deepEqual([asked, tracker.state, tracker.buffered], [[], "idle", 0]);
  assert.equal(tracker.belongTo("right"), false);

  tracker.belongTo("wrong");
  assert.deepEqual([tracker.state, tracker.buffered, tracker.counts.taken], ["stopping", 1, 1]);
  await tracker.pump();
  assert.deepEqual([asked, tracker.state, tracker.buffered], [["fix", "stop"], "stopped", 0]);
  assert.deepEqual(tracker.counts, { taken: 1, sent: 1, filtered: 0, rejected: 0 });
});

// Ages and states as time passes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { from } from "./modules.mjs";

const { agedState, ageText, ServerClock } = await from("ages");
const NOW = 1_800_000_000_000;

test("ages read as people say them", () => {
  const table = [[0, "now"], [2_999, "now"], [42_000, "42 s ago"], [60_000, "1 min ago"], [7_200_000, "2 h ago"], [260_000_000, "3 d ago"], [-5000, "now"]];
  for (const [age, text] of table) assert.equal(ageText(NOW - age, NOW), text);
  assert.equal(ageText(null, NOW), "no position yet");
});

test("time makes a live device idle and stale, and nothing else", () => {
  assert.equal(agedState("live", NOW - 30_000, NOW), "live");
  assert.equal(agedState("live", NOW - 30_001, NOW), "idle");
  assert.equal(agedState("live", NOW - 60_001, NOW), "stale");
  assert.equal(agedState("live", NOW - 9e9, NOW), "stale");
  for (const state of ["lost", "stopped", "never"]) assert.equal(agedState(state, NOW, NOW), state);
});

test("a browser whose clock is wrong still shows the server's ages", () => {
  const clock = new ServerClock();
  clock.sync(NOW, NOW - 3_600_000);
  assert.equal(clock.now(NOW - 3_599_000), NOW + 1000);
});

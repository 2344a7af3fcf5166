// The badge says what is true.
import assert from "node:assert/strict";
import { test } from "node:test";
import { from } from "./modules.mjs";

const { badgeText } = await from("badge");

const TABLE = [
  [{ name: "live" }, "good", "Live"],
  [{ name: "connecting", retryAt: null }, "wait", "Connecting…"],
  [{ name: "reconnecting", retryAt: 13_200 }, "wait", "Reconnecting in 4 s"],
  [{ name: "reconnecting", retryAt: null }, "wait", "Reconnecting…"],
  [{ name: "offline", retryAt: 12_000 }, "bad", "Offline"],
  [{ name: "signed-out" }, "bad", "Signed out"],
];
for (const [state, tone, text] of TABLE) {
  test(`${state.name} reads as ${text}`, () => assert.deepEqual(badgeText(state, 10_000), { tone, text }));
}

// Frames, rosters and events become one truth per device.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { from } from "./modules.mjs";

const { Devices, drawnPosition, lastSeen } = await from("devices");
const NOW = 1_800_000_000_000;
let devices;

const item = (id, over = {}) => ({ id, lat: 50, lon: 5, t: NOW, acc: 5, spd: 10, crs: 90, bat: 80, st: "live", ...over });
const frame = (items, over = {}) => ({ type: "frame", n: 1, epoch: "a", full: false, items, gone: [], ...over });
const roster = (items, over = {}) => ({ type: "roster", full: true, items, gone: [], ...over });
const row = (id, over = {}) => ({ id, name: `Van ${id}`, fleet: "North", kind: "vehicle", st: "live", t: NOW, lat: 50, lon: 5, ...over });

beforeEach(() => { devices = new Devices(); });

test("an older fix never moves a device back", () => {
  devices.applyFrame(frame([item("1", { lat: 51, t: NOW })]), NOW);
  devices.applyFrame(frame([item("1", { lat: 49, t: NOW - 1 })]), NOW);
  assert.equal(drawnPosition(devices.get("1")).lat, 51);
});

test("a full frame replaces everything that was in view", () => {
  devices.applyFrame(frame([item("1"), item("2")], { full: true }), NOW);
  devices.applyFrame(frame([item("2")], { full: true }), NOW);
  assert.equal(devices.get("1").fix, null);
  assert.ok(devices.get("2").fix);
});

test("a new epoch forgets fixes, and accepts older ones again", () => {
  devices.applyFrame(frame([item("1", { lat: 51 })]), NOW);
  devices.applyFrame(frame([item("1", { lat: 49, t: NOW - 5000 })], { epoch: "b" }), NOW);
  assert.equal(devices.get("1").fix.lat, 49);
});

test("a device that left the view is not drawn at its old place until the roster knows better", () => {
  devices.applyFrame(frame([item("1")]), NOW);
  devices.applyFrame(frame([], { gone: ["1"] }), NOW);
  assert.equal(drawnPosition(devices.get("1")), null);
  assert.equal(lastSeen(devices.get("1")), NOW);
  devices.applyRoster(roster([row("1", { t: NOW + 5000, lat: 52 })]), NOW + 5000);
  assert.equal(drawnPosition(devices.get("1")).lat, 52);
});

test("a lost device stays where it was last seen", () => {
  devices.applyRoster(roster([row("1")]), NOW);
  devices.applyFrame(frame([item("1")]), NOW);
  devices.applyFrame(frame([], { gone: ["1"] }), NOW);
  devices.applyEvent({ event: "lost", id: "1", t: NOW + 120_000 }, NOW + 120_000);
  assert.equal(devices.get("1").state, "lost");
  assert.equal(drawnPosition(devices.get("1")).lat, 50);
});

test("a stop is seen at once and a new fix starts it again", () => {
  devices.applyFrame(frame([item("1")]), NOW);
  devices.applyEvent({ event: "stop", id: "1", t: NOW }, NOW);
  assert.equal(devices.get("1").state, "stopped");
  devices.applyFrame(frame([item("1", { t: NOW + 1000 })]), NOW + 1000);
  assert.equal(devices.get("1").state, "live");
});

test("a roster older than the newest fix does not overrule its state", () => {
  devices.applyFrame(frame([item("1")]), NOW);
  devices.applyRoster(roster([row("1", { st: "lost", t: NOW - 1000 })]), NOW);
  assert.equal(devices.get("1").state, "live");
  assert.equal(devices.get("1").name, "Van 1");
});

test("in view frames decide, however new the roster's sign of life is", () => {
  devices.applyRoster(roster([row("1", { t: NOW + 9000, lat: 40 })]), NOW + 9000);
  devices.applyFrame(frame([item("1", { t: NOW + 8000, lat: 41 })]), NOW + 9000);
  assert.equal(drawnPosition(devices.get("1")).lat, 41);
  devices.applyRoster(roster([row("1", { t: NOW + 9500, lat: 40 })]), NOW + 9500);
  assert.equal(drawnPosition(devices.get("1")).lat, 41);
  assert.equal(lastSeen(devices.get("1")), NOW + 9500);
});

test("who is missing from a full roster is gone, and so is who is named gone", () => {
  devices.applyRoster(roster([row("1"), row("2"), row("3")]), NOW);
  devices.applyRoster(roster([row("1"), row("2")]), NOW);
  devices.applyRoster(roster([], { full: false, gone: ["2"] }), NOW);
  assert.deepEqual([...devices.all()].map(({ id }) => id), ["1"]);
});

test("a device that has never sent a position is listed but not drawn", () => {
  devices.applyRoster(roster([row("1", { st: "never", t: null, lat: null, lon: null })]), NOW);
  assert.equal(devices.get("1").state, "never");
  assert.equal(drawnPosition(devices.get("1")), null);
});

test("ageing marks only devices whose state changed", () => {
  devices.applyRoster(roster([row("1"), row("2", { t: NOW - 29_000 })]), NOW);
  devices.takeChanged();
  devices.age(NOW + 2000);
  assert.deepEqual([...devices.takeChanged()], ["2"]);
  assert.deepEqual(devices.counts(), { all: 2, live: 1, idle: 1 });
});

// Distances, viewports and bounds, at the antimeridian too.
import assert from "node:assert/strict";
import { test } from "node:test";
import { from } from "./modules.mjs";

const { boundsOf, circle, distanceM, movedEnough, viewportOf } = await from("geo");
const { selectionDiff } = await from("selection");
const { Trails } = await from("trails");
const { retryDelay } = await from("backoff");

test("distances agree with the known one between London and Paris", () => {
  const metres = distanceM({ lat: 51.5074, lon: -0.1278 }, { lat: 48.8566, lon: 2.3522 });
  assert.ok(Math.abs(metres - 343_500) < 1500);
});

test("every point of an accuracy ring has its radius", () => {
  for (const [lon, lat] of circle(5, 60, 250)) assert.ok(Math.abs(distanceM({ lat: 60, lon: 5 }, { lat, lon }) - 250) < 2);
});

test("a viewport over the antimeridian has its west east of its east", () => {
  const [west, , east] = viewportOf({ west: 170, south: -20, east: 190, north: 0 }, 0);
  assert.deepEqual([west, east], [170, -170]);
});

test("a view as wide as the world asks for everything", () => {
  assert.equal(viewportOf({ west: -200, south: -60, east: 160, north: 70 }), null);
});

test("tiny moves are not told, zooms and real moves are", () => {
  const at = (viewport, zoom = 5) => ({ viewport, zoom });
  assert.equal(movedEnough(null, at([0, 0, 10, 10])), true);
  assert.equal(movedEnough(at([0, 0, 10, 10]), at([0.1, 0.1, 10.1, 10.1])), false);
  assert.equal(movedEnough(at([0, 0, 10, 10]), at([1, 0, 11, 10])), true);
  assert.equal(movedEnough(at([0, 0, 10, 10]), at([0, 0, 10, 10], 5.5)), true);
  assert.equal(movedEnough(at(null, 1), at(null, 1)), false);
});

test("a fleet on both sides of the antimeridian is fitted tightly", () => {
  assert.deepEqual(boundsOf([{ lat: -18, lon: 178 }, { lat: -14, lon: -172 }]), [[178, -18], [188, -14]]);
  assert.equal(boundsOf([]), null);
});

test("a trail breaks at a gap and ignores standing still", () => {
  const trails = new Trails();
  const points = [[5, 0], [5.001, 1000], [5.001, 2000], [5.002, 200_000], [5.003, 201_000], [5.002, 3000]];
  for (const [lon, t] of points) trails.push("1", { lon, lat: 50, t });
  assert.deepEqual(trails.of("1").map((line) => line.length), [2, 2]);
});

test("retries wait between half a second and half a minute, and differ", () => {
  assert.equal(retryDelay(0, () => 0), 500);
  for (let attempt = 0; attempt < 40; attempt += 1) {
    const wait = retryDelay(attempt);
    assert.ok(wait >= 500 && wait <= 30_000);
  }
  assert.notEqual(retryDelay(5, () => 0.1), retryDelay(5, () => 0.9));
});

test("a selection draws no geometry without a point: the map cannot bound it", () => {
  const place = { lon: 8, lat: 47 };
  assert.deepEqual(selectionDiff({ trail: [], place, accuracyM: null }), { add: [], remove: ["trail", "accuracy"] });
  const { add, remove } = selectionDiff({ trail: [[[8, 47], [8, 48]]], place, accuracyM: 30 });
  assert.deepEqual([add.map(({ id }) => id), remove], [["trail", "accuracy"], []]);
});

// The diff between what is drawn and what is known holds only what changed.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { from } from "./modules.mjs";

const { Picture } = await from("picture");
const { GLIDE_MS } = await from("motion");
const NEAR = () => 1; // one metre per pixel
let picture;

const device = (over = {}) => ({
  id: "1", name: "Van 1", state: "live", crs: 90, left: false, last: null, fix: { t: 1, lat: 50, lon: 5 }, ...over,
});
const moved = (lon, t = 2) => device({ fix: { t, lat: 50, lon } });

beforeEach(() => {
  picture = new Picture();
  picture.diff([["1", device()]], 0, NEAR);
});

test("a device is added once, and an unchanged one costs nothing", () => {
  assert.equal(picture.diff([["1", device()]], 16, NEAR), null);
});

test("a turn changes one property and no geometry", () => {
  const { add, update } = picture.diff([["1", device({ crs: 180 })]], 16, NEAR);
  assert.deepEqual(add, []);
  assert.deepEqual(update, [{ id: "1", addOrUpdateProperties: [{ key: "turn", value: 180 }] }]);
});

test("a short move glides and ends exactly at the new place", () => {
  const first = picture.diff([["1", moved(5.001)]], 100, NEAR);
  assert.equal(first.update[0].newGeometry.coordinates[0], 5);
  const half = picture.diff([], 100 + GLIDE_MS / 2, NEAR);
  assert.ok(Math.abs(half.update[0].newGeometry.coordinates[0] - 5.0005) < 1e-9);
  const end = picture.diff([], 100 + GLIDE_MS, NEAR);
  assert.deepEqual(end.update[0].newGeometry.coordinates, [5.001, 50]);
  assert.equal(picture.moving, false);
});

test("long jumps, invisible moves and reduced motion are drawn at once", () => {
  for (const [lon, scale] of [[9, NEAR], [5.001, () => 1e6], [5.001, null]]) {
    const diff = picture.diff([["1", moved(lon)]], 100, scale);
    assert.equal(diff.update[0].newGeometry.coordinates[0], lon);
    assert.equal(picture.moving, false);
    picture.diff([["1", device()]], 100, null);
  }
});

test("a glide over the antimeridian takes the short way", () => {
  picture.diff([["1", moved(179.9995)]], 0, null);
  picture.diff([["1", moved(-179.9995, 3)]], 100, NEAR);
  const half = picture.diff([], 100 + GLIDE_MS / 2, NEAR);
  assert.ok(Math.abs(half.update[0].newGeometry.coordinates[0] - 180) < 1e-6);
});

test("a device that vanished is removed", () => {
  assert.deepEqual(picture.diff([["1", undefined]], 16, NEAR), { add: [], remove: ["1"], update: [] });
  assert.equal(picture.at("1"), undefined);
});

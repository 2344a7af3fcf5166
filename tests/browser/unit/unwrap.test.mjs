// Shapes across the antimeridian and around the pole become flat.
import assert from "node:assert/strict";
import { test } from "node:test";
import { from } from "./modules.mjs";

const { unwrapLine, unwrapPolygons } = await from("unwrap");

test("a line over the antimeridian goes on beyond 180", () => {
  assert.deepEqual(unwrapLine([[179, 1], [-179, 2], [-178, 3], [179, 4]]), [[179, 1], [181, 2], [182, 3], [179, 4]]);
});

test("an ordinary ring stays as it is", () => {
  const ring = [[0, 0], [1, 0], [1, 1], [0, 0]];
  assert.deepEqual(unwrapPolygons({ type: "Polygon", coordinates: [ring] }).coordinates, [[ring]]);
});

test("a ring around the south pole is closed along the edge of the map", () => {
  const ring = [[-90, -70], [0, -70], [90, -70], [179, -70], [-90, -70]];
  const [[flat]] = unwrapPolygons({ type: "Polygon", coordinates: [ring] }).coordinates;
  assert.deepEqual(flat.slice(-3), [[270, -90], [-90, -90], [-90, -70]]);
});

// Where each device was lately, as far as this page has seen it. Pure.
// Before it: new fixes in `live.js`. After it: the line behind the selected device.

import { distanceM } from "./geo.js";

const MOST_POINTS = 200;
const STEP_M = 8;
const GAP_MS = 120_000;

export class Trails {
  #byId = new Map();

  /** Remember a position; a pause above two minutes or a step over 180° starts a new piece. */
  push(id, { lon, lat, t }) {
    const points = this.#byId.get(id) ?? [];
    const previous = points.at(-1);
    if (previous && (t <= previous.t || distanceM(previous, { lat, lon }) < STEP_M)) return;
    const gap = !previous || t - previous.t > GAP_MS || Math.abs(lon - previous.lon) > 180;
    points.push({ lon, lat, t, gap });
    if (points.length > MOST_POINTS) points.shift();
    this.#byId.set(id, points);
  }

  forget(id) {
    this.#byId.delete(id);
  }

  /** The pieces of a device's trail as GeoJSON MultiLineString coordinates. */
  of(id) {
    const lines = [];
    for (const { lon, lat, gap } of this.#byId.get(id) ?? []) {
      if (gap || lines.length === 0) lines.push([]);
      lines.at(-1).push([lon, lat]);
    }
    return lines.filter((line) => line.length > 1);
  }
}

// What is drawn around the selected device: its trail and the ring of its accuracy. Pure.
// Before it: `trails.js`. After it: one `updateData` of the map's selection source.

import { circle } from "./geo.js";

/** The diff that shows `trail` (pieces of `[lon, lat]`) and a ring of `accuracyM` at `place`.
 *
 * A part with nothing to show is removed, not emptied: MapLibre asks every changed
 * geometry for its bounds, and throws when it has no point at all. */
export function selectionDiff({ trail, place, accuracyM }) {
  const geometries = {
    trail: trail.length ? { type: "MultiLineString", coordinates: trail } : null,
    accuracy: place && accuracyM ? { type: "Polygon", coordinates: [circle(place.lon, place.lat, accuracyM)] } : null,
  };
  const parts = Object.entries(geometries);
  return {
    add: parts.filter(([, geometry]) => geometry).map(([id, geometry]) => feature(id, geometry)),
    remove: parts.filter(([, geometry]) => !geometry).map(([id]) => id),
  };
}

const feature = (id, geometry) => ({ type: "Feature", id, properties: { id }, geometry });

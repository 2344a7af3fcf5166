// Makes world-atlas shapes flat. Its rings are stitched across ±180°, as on a globe; a
// flat map needs continuous longitudes and a closed south pole. Pure.
// Before it: topojson. After it: `basemap.js`.

/** The same line with no jump over the antimeridian: longitudes may pass ±180. */
export function unwrapLine(line) {
  let shift = 0;
  return line.map(([lon, lat], i) => {
    const step = i > 0 ? lon - line[i - 1][0] : 0;
    if (step > 180) shift -= 360;
    if (step < -180) shift += 360;
    return [lon + shift, lat];
  });
}

/** A ring that goes once around a pole is closed along that pole's edge of the map. */
function unwrapRing(ring) {
  const flat = unwrapLine(ring);
  const [[firstLon, firstLat], [lastLon]] = [flat[0], flat.at(-1)];
  if (Math.abs(lastLon - firstLon) < 180) return flat;
  const pole = firstLat < 0 ? -90 : 90;
  return [...flat, [lastLon, pole], [firstLon, pole], flat[0]];
}

/** Polygon or MultiPolygon geometry, made flat. */
export function unwrapPolygons({ type, coordinates }) {
  const flat = type === "Polygon" ? [coordinates] : coordinates;
  return { type: "MultiPolygon", coordinates: flat.map((rings) => rings.map(unwrapRing)) };
}

export function unwrapLines({ coordinates }) {
  return { type: "MultiLineString", coordinates: coordinates.map(unwrapLine) };
}

// Distances and shapes on the globe. Pure; degrees in, metres or degrees out.
// Used by motion, trails, the accuracy ring and the phone's 10 m rule.

const EARTH_M = 6_371_008.8;
const RADIANS = Math.PI / 180;

/** Great-circle metres between two `{lat, lon}`. */
export function distanceM(a, b) {
  const dLat = (b.lat - a.lat) * RADIANS;
  const dLon = (b.lon - a.lon) * RADIANS;
  const h =
    Math.sin(dLat / 2) ** 2 +
    Math.cos(a.lat * RADIANS) * Math.cos(b.lat * RADIANS) * Math.sin(dLon / 2) ** 2;
  return 2 * EARTH_M * Math.asin(Math.min(1, Math.sqrt(h)));
}

/** Metres that one screen pixel covers at this latitude and zoom (512 px tiles). */
export function metresPerPixel(lat, zoom) {
  return (Math.cos(lat * RADIANS) * 2 * Math.PI * EARTH_M) / (512 * 2 ** zoom);
}

/** A closed ring of `[lon, lat]` at `radiusM` metres around a point. */
export function circle(lon, lat, radiusM, points = 48) {
  const dLat = radiusM / EARTH_M / RADIANS;
  const dLon = dLat / Math.max(0.01, Math.cos(lat * RADIANS));
  const ring = [];
  for (let i = 0; i <= points; i += 1) {
    const angle = (2 * Math.PI * i) / points;
    ring.push([lon + dLon * Math.cos(angle), lat + dLat * Math.sin(angle)]);
  }
  return ring;
}

/** The viewport message for map bounds, padded a little; null means the whole world.
 *
 * Longitudes come back within ±180; west > east means the antimeridian is inside. */
export function viewportOf({ west, south, east, north }, padding = 0.1) {
  const width = (east - west) * (1 + 2 * padding);
  if (width >= 360) return null;
  const height = (north - south) * padding;
  const wrap = (lon) => ((((lon + 180) % 360) + 360) % 360) - 180;
  const margin = (east - west) * padding;
  return [
    round(wrap(west - margin)),
    round(Math.max(-90, south - height)),
    round(wrap(east + margin)),
    round(Math.min(90, north + height)),
  ];
}

/** Whether a new view differs enough from the watched one to tell the server.
 *
 * `a` and `b` are `{viewport, zoom}`; moves below a twentieth of the view do not count. */
export function movedEnough(a, b) {
  if (a === null || Math.abs(a.zoom - b.zoom) > 0.05) return true;
  if (a.viewport === null || b.viewport === null) return a.viewport !== b.viewport;
  const span = Math.min(
    Math.abs(b.viewport[2] - b.viewport[0]) || 360,
    b.viewport[3] - b.viewport[1],
  );
  return b.viewport.some((edge, i) => Math.abs(edge - a.viewport[i]) > span * 0.05);
}

const round = (degrees) => Math.round(degrees * 1e5) / 1e5;

/** The smallest `[[west, south], [east, north]]` around `{lat, lon}` points, or null.
 *
 * A fleet on both sides of the antimeridian gets an east beyond 180°. */
export function boundsOf(points) {
  if (!points.length) return null;
  const lats = points.map(({ lat }) => lat);
  const plain = extent(points.map(({ lon }) => lon));
  const turned = extent(points.map(({ lon }) => (lon < 0 ? lon + 360 : lon)));
  const [west, east] = turned[1] - turned[0] < plain[1] - plain[0] ? turned : plain;
  const [south, north] = extent(lats);
  return [[west, south], [east, north]];
}

const extent = (values) => [
  values.reduce((a, b) => Math.min(a, b)),
  values.reduce((a, b) => Math.max(a, b)),
];

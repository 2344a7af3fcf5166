// The offline basemap: Natural Earth from the world-atlas package, a graticule and
// our own place names. Before it: static files. After it: the style in `map.js`.

import { unwrapLines, unwrapPolygons } from "./unwrap.js";

const ATLAS = new URL("../vendor/world-atlas/countries-50m.json", import.meta.url);
const PLACES = new URL("places.json", import.meta.url);

/** Deepest zoom that 1:50m data bears; below it the land would be blank. */
export const OFFLINE_MAX_ZOOM = 9.5;
export const ATTRIBUTION = "Made with Natural Earth";

/** Fetch and convert everything the offline style draws: `{land, borders, coast, places}`. */
export async function loadBasemap() {
  const [world, places] = await Promise.all([ATLAS, PLACES].map(fetchJson));
  const { countries } = world.objects;
  return {
    land: landFeatures(window.topojson.feature(world, countries)),
    borders: lines(unwrapLines(window.topojson.mesh(world, countries, (a, b) => a !== b))),
    coast: lines(unwrapLines(window.topojson.mesh(world, countries, (a, b) => a === b))),
    places: placeFeatures(places),
  };
}

async function fetchJson(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: HTTP ${response.status}`);
  return response.json();
}

function landFeatures({ features }) {
  const land = features.map(({ geometry }) => ({ type: "Feature", properties: {}, geometry: unwrapPolygons(geometry) }));
  return { type: "FeatureCollection", features: land };
}

const lines = (geometry) => ({ type: "Feature", properties: {}, geometry });

function placeFeatures({ cities, countries, seas }) {
  const rows = [
    ...cities.map((row) => ["city", ...row]),
    ...countries.map((row) => ["country", ...row]),
    ...seas.map((row) => ["sea", ...row]),
  ];
  const features = rows.map(([kind, name, lat, lon, rank]) => ({
    type: "Feature",
    geometry: { type: "Point", coordinates: [lon, lat] },
    properties: { kind, name, rank, image: `place:${kind}:${name}` },
  }));
  return { type: "FeatureCollection", features };
}

/** Meridians and parallels every `step` degrees. */
function graticule(step) {
  const range = (from, to) => Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => from + i * step);
  const meridians = range(-180, 180).map((lon) => [[lon, -85], [lon, 85]]);
  const parallels = range(-80, 80).map((lat) => [[-180, lat], [180, lat]]);
  return lines({ type: "MultiLineString", coordinates: [...meridians, ...parallels] });
}

/** Layer id → paint properties in these colours; also used to change the theme. */
export function basemapPaint(colours) {
  return {
    water: { "background-color": colours.water },
    "graticule-10": { "line-color": colours.graticule, "line-width": 1 },
    "graticule-1": { "line-color": colours.graticule, "line-width": 0.7 },
    shelf: { "line-color": colours.shelf, "line-width": ["interpolate", ["linear"], ["zoom"], 2, 3, 6, 10, 9, 16], "line-blur": 3 },
    land: { "fill-color": colours.land },
    borders: { "line-color": colours.border, "line-width": ["interpolate", ["linear"], ["zoom"], 2, 0.6, 8, 1.6] },
    coast: { "line-color": colours.landEdge, "line-width": ["interpolate", ["linear"], ["zoom"], 2, 0.6, 8, 1.4] },
  };
}

/** A MapLibre style with no address in it: works without any network. */
export function offlineStyle({ land, borders, coast, places }, colours) {
  const paint = basemapPaint(colours);
  const geojson = (data, options) => ({ type: "geojson", data, tolerance: 0.3, ...options });
  const line = (id, source, extra) => ({ id, type: "line", source, paint: paint[id], layout: { "line-join": "round" }, ...extra });
  return {
    version: 8,
    sources: {
      land: geojson(land, { attribution: ATTRIBUTION }),
      borders: geojson(borders),
      coast: geojson(coast),
      graticule10: geojson(graticule(10)),
      graticule1: geojson(graticule(1)),
      places: geojson(places),
    },
    layers: [
      { id: "water", type: "background", paint: paint.water },
      line("shelf", "coast"),
      line("graticule-10", "graticule10"),
      line("graticule-1", "graticule1", { minzoom: 6 }),
      { id: "land", type: "fill", source: "land", paint: paint.land },
      line("borders", "borders"),
      line("coast", "coast"),
      ...placeLayers(),
    ],
  };
}

/** Place names are drawn as images (`labels.js`): text layers would need font files. */
function placeLayers() {
  const layer = (id, filter, minzoom, maxzoom) => ({
    id, type: "symbol", source: "places", filter, minzoom, maxzoom,
    layout: {
      "icon-image": ["get", "image"], "icon-padding": 6, "symbol-sort-key": ["get", "rank"],
      "icon-anchor": ["match", ["get", "kind"], "city", "left", "center"],
      "icon-offset": ["match", ["get", "kind"], "city", ["literal", [-5, 0]], ["literal", [0, 0]]],
    },
  });
  const kind = (name) => ["==", ["get", "kind"], name];
  const rank = (most) => ["all", kind("city"), ["<=", ["get", "rank"], most]];
  return [
    layer("seas", kind("sea"), 1.5, 6.5),
    layer("countries", kind("country"), 1.8, 6),
    layer("cities-1", ["all", kind("city"), ["==", ["get", "rank"], 1]], 2.6, 4),
    layer("cities-2", rank(2), 4, 5),
    layer("cities-3", rank(3), 5, 24),
  ];
}

// The MapLibre layers of the fleet: trail, accuracy, halo, markers, names. Data only.
// Before it: sources of `map.js`. After it: the style.

const NOBODY = ["==", ["get", "id"], ""];

/** Layer id → paint properties in these colours; also used to change the theme. */
export function fleetPaint(colours) {
  return {
    accuracy: { "fill-color": colours.ring, "fill-opacity": 0.12 },
    "trail-edge": { "line-color": colours.outline, "line-width": 6, "line-opacity": 0.7 },
    trail: { "line-color": colours.trail, "line-width": 3, "line-opacity": 0.85 },
    halo: {
      "circle-radius": 19, "circle-color": colours.ring, "circle-opacity": 0.18,
      "circle-stroke-color": colours.ring, "circle-stroke-width": 2,
    },
  };
}

/** Only this device; null matches none. */
export const selectionFilter = (id) => (id === null ? NOBODY : ["==", ["get", "id"], id]);

/** Only these states; an empty set matches all. */
export const statesFilter = (states) => (states.size ? ["in", ["get", "state"], ["literal", [...states]]] : null);

export function fleetLayers(colours) {
  const paint = fleetPaint(colours);
  const part = (id) => ["==", ["get", "id"], id];
  const round = { "line-join": "round", "line-cap": "round" };
  return [
    { id: "accuracy", type: "fill", source: "selection", filter: part("accuracy"), paint: paint.accuracy },
    { id: "trail-edge", type: "line", source: "selection", filter: part("trail"), paint: paint["trail-edge"], layout: round },
    { id: "trail", type: "line", source: "selection", filter: part("trail"), paint: paint.trail, layout: round },
    { id: "halo", type: "circle", source: "devices", filter: NOBODY, paint: paint.halo },
    nameLayer("names", { minzoom: 6.5 }),
    { id: "devices", type: "symbol", source: "devices", layout: MARKER },
    nameLayer("selected-name", { filter: NOBODY, overlap: true, below: 20 }),
  ];
}

const MARKER = {
  "icon-image": ["get", "icon"],
  "icon-rotate": ["get", "turn"],
  "icon-rotation-alignment": "map",
  "icon-size": ["interpolate", ["linear"], ["zoom"], 2, 0.62, 5, 0.85, 8, 1],
  "icon-allow-overlap": true,
  "icon-ignore-placement": true,
  "symbol-sort-key": ["get", "order"],
};

/** Names are images (`labels.js`); those that would collide are left out. */
function nameLayer(id, { minzoom = 0, filter, overlap = false, below = 11 }) {
  return {
    id, type: "symbol", source: "devices", minzoom, ...(filter ? { filter } : {}),
    layout: {
      "icon-image": ["concat", "device:", ["get", "name"]],
      "icon-anchor": "top", "icon-offset": [0, below],
      "icon-allow-overlap": overlap,
    },
  };
}

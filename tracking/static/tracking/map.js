// The one module that talks to MapLibre: basemap, markers, selection, camera.
// Before it: diffs of `drawing.js`. After it: the canvas, and clicks back to `live.js`.

import * as maplibre from "../vendor/maplibre-gl/maplibre-gl.mjs";
import { basemapPaint, loadBasemap, OFFLINE_MAX_ZOOM, offlineStyle } from "./basemap.js";
import { viewportOf } from "./geo.js";
import { iconImage, ICONS } from "./icons.js";
import { labelImage, parseLabel } from "./labels.js";
import { fleetLayers, fleetPaint, selectionFilter, statesFilter } from "./layers.js";
import { palette } from "./palette.js";
import { selectionDiff } from "./selection.js";

// MapLibre 6 would look for its worker beside itself; hashed file names break that.
maplibre.setWorkerUrl(new URL("../vendor/maplibre-gl/maplibre-gl-worker.mjs", import.meta.url).href);

const NOTHING = { type: "FeatureCollection", features: [] };
const ONLINE_MAX_ZOOM = 19;

export class FleetMap {
  #map;
  #dark;
  #offline;
  #selected = null;

  /** Rejects when WebGL is missing. `on`: `select(id | null)`, `settle()`, `drag()`, `notice(text)`. */
  static async create({ container, dark, styleUrl, attribution, on }) {
    let basemap;
    if (!styleUrl) basemap = offlineStyle(await loadBasemap(), palette(dark));
    const map = new maplibre.Map({
      container, style: styleUrl || basemap,
      center: [10, 30], zoom: 1.6, minZoom: 1,
      maxZoom: styleUrl ? ONLINE_MAX_ZOOM : OFFLINE_MAX_ZOOM,
      // A marker that moves between two placements would fade in again and again.
      fadeDuration: 0,
      attributionControl: { compact: true, customAttribution: attribution || undefined },
      dragRotate: false, pitchWithRotate: false, maxPitch: 0,
    });
    const fleet = new FleetMap(map, { dark, offline: !styleUrl, on });
    await fleet.#start(on);
    return fleet;
  }

  constructor(map, { dark, offline, on }) {
    this.#map = map;
    this.#dark = dark;
    this.#offline = offline;
    map.touchZoomRotate.disableRotation();
    map.keyboard.disableRotation();
    map.addControl(new maplibre.NavigationControl({ showCompass: false }), "top-right");
    map.addControl(new maplibre.ScaleControl({ maxWidth: 110 }), "bottom-left");
    map.setMissingStyleImageResolver((id) => this.#drawImage(id));
    this.#listen(on);
  }

  #start(on) {
    return new Promise((resolve) => {
      this.#map.on("style.load", () => {
        this.#addFleet();
        resolve();
      });
      if (!this.#offline) this.#fallBackOnError(on);
    });
  }

  /** Without its online style the map goes on with the offline one. */
  #fallBackOnError(on) {
    const failed = async () => {
      on.notice("The online map style cannot be loaded; showing the built-in map.");
      this.#offline = true;
      this.#map.setMaxZoom(OFFLINE_MAX_ZOOM);
      this.#map.setStyle(offlineStyle(await loadBasemap(), palette(this.#dark)));
    };
    this.#map.once("error", failed);
    this.#map.once("style.load", () => this.#map.off("error", failed));
  }

  #addFleet() {
    const source = { type: "geojson", data: NOTHING, promoteId: "id", tolerance: 0 };
    for (const id of ["selection", "devices"]) if (!this.#map.getSource(id)) this.#map.addSource(id, source);
    for (const layer of fleetLayers(palette(this.#dark))) this.#map.addLayer(layer);
  }

  #listen(on) {
    const map = this.#map;
    map.on("moveend", () => on.settle());
    map.on("dragstart", () => on.drag());
    map.on("click", ({ point }) => on.select(this.#deviceNear(point)));
    map.on("mousemove", "devices", () => { map.getCanvas().style.cursor = "pointer"; });
    map.on("mouseleave", "devices", () => { map.getCanvas().style.cursor = ""; });
  }

  /** A finger is not a cursor: the nearest marker within 14 px is meant. */
  #deviceNear({ x, y }) {
    const box = [[x - 14, y - 14], [x + 14, y + 14]];
    const away = ({ geometry }) => {
      const at = this.#map.project(geometry.coordinates);
      return Math.hypot(at.x - x, at.y - y);
    };
    const hits = this.#map.queryRenderedFeatures(box, { layers: ["devices"] });
    return hits.sort((a, b) => away(a) - away(b))[0]?.properties.id ?? null;
  }

  get zoom() {
    return this.#map.getZoom();
  }

  /** What is in view, as the server wants to know it. */
  view() {
    const bounds = this.#map.getBounds();
    const viewport = viewportOf({
      west: bounds.getWest(), south: bounds.getSouth(), east: bounds.getEast(), north: bounds.getNorth(),
    });
    return { viewport, zoom: Math.round(this.zoom * 100) / 100 };
  }

  /** Apply a diff of `picture.js` to the markers. */
  update(diff) {
    return this.#map.getSource("devices").updateData(diff);
  }

  /** Highlight one device, or none with null. */
  select(id) {
    this.#selected = id;
    for (const layer of ["halo", "selected-name"]) this.#map.setFilter(layer, selectionFilter(id));
    if (id === null) this.#map.getSource("selection").updateData({ removeAll: true });
  }

  /** Trail and accuracy ring of the selected device. */
  showSelection(parts) {
    if (this.#selected !== null) this.#map.getSource("selection").updateData(selectionDiff(parts));
  }

  /** Show only devices in these states; an empty set shows all. */
  showStates(states) {
    this.#map.setFilter("devices", statesFilter(states));
    this.#map.setFilter("names", statesFilter(states));
  }

  /** Room that panels take from the map, `{left, bottom, …}` in pixels. */
  setPadding(padding) {
    this.#map.setPadding({ top: 0, right: 0, bottom: 0, left: 0, ...padding });
  }

  fit(bounds, { animate = true } = {}) {
    const maxZoom = this.#offline ? 8 : 14;
    this.#map.fitBounds(bounds, { padding: 60, maxZoom, duration: animate ? 900 : 0 });
  }

  flyTo({ lon, lat }) {
    const near = this.#offline ? 7.5 : 13;
    this.#map.flyTo({ center: [lon, lat], zoom: Math.max(this.zoom, near), duration: 1400 });
  }

  /** Keep a moving marker in the middle, unless a flight there is under way. */
  follow({ lon, lat }) {
    if (!this.#map.isMoving()) this.#map.setCenter([lon, lat]);
  }

  setDark(dark) {
    this.#dark = dark;
    const colours = palette(dark);
    const paints = this.#offline ? [basemapPaint(colours), fleetPaint(colours)] : [fleetPaint(colours)];
    for (const [layer, paint] of paints.flatMap(Object.entries)) {
      for (const [property, value] of Object.entries(paint)) this.#map.setPaintProperty(layer, property, value);
    }
    for (const id of this.#map.listImages()) this.#drawImage(id);
  }

  /** Icons and labels are drawn when the style first asks for them. */
  #drawImage(id) {
    const colours = palette(this.#dark);
    const label = parseLabel(id);
    if (!label && !ICONS.includes(id)) return;
    const { data, options } = label ? labelImage(label, colours) : iconImage(id, colours);
    if (this.#map.hasImage(id)) this.#map.updateImage(id, data);
    else this.#map.addImage(id, data, options);
  }
}

// The live map page: wires connection, devices, map, list and card together.
// Before it: `map.html`. After it: the modules below, each with one concern.

import { ServerClock } from "./ages.js";
import { Badge } from "./badge.js";
import { Card } from "./card.js";
import { drawnPosition, Devices } from "./devices.js";
import { Drawing } from "./drawing.js";
import { boundsOf, movedEnough } from "./geo.js";
import { DeviceList } from "./list.js";
import { LiveSocket } from "./socket.js";
import { Trails } from "./trails.js";

const SETTLE_MS = 150;
const LONGEST_SETTLE_MS = 1000;

const byId = (id) => document.getElementById(id);
const config = document.body.dataset;
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
const narrowness = window.matchMedia("(max-width: 720px)");

const clock = new ServerClock();
const devices = new Devices();
const trails = new Trails();
const badge = new Badge(byId("badge"));
const list = new DeviceList(byId("panel"), { select, states: (states) => map?.showStates(states) });
const card = new Card(byId("card"), config.deviceAdminUrl, { follow: toggleFollow, close: () => select(null) });
const socket = new LiveSocket(socketUrl(), {
  onState: showConnection,
  onHello: ({ now }) => clock.sync(now),
  onFrame: (frame) => { devices.applyFrame(frame, clock.now()); remember(frame.items); changed(); fitOnce(); },
  onRoster: (roster) => { devices.applyRoster(roster, clock.now()); list.loaded(devices.counts()); changed(); fitOnce(); },
  onEvent: (event) => { devices.applyEvent(event, clock.now()); changed(); },
  onError: ({ reason, detail }) => notice(detail || reason),
});

let map = null;
let drawing = null;
let selected = null;
let following = false;
let fitted = false;
let watched = null;
let watchTimer = 0;
let unsettledSince = 0;

function socketUrl() {
  const url = new URL(config.socket, window.location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

/** Everything that shows devices, after any message or the passing of time. */
function changed() {
  const ids = devices.takeChanged();
  if (!ids.size) return;
  const pairs = [...ids].map((id) => [id, devices.get(id)]);
  for (const [id, device] of pairs) if (!device) trails.forget(id);
  if (selected && !devices.get(selected)) select(null);
  list.update(pairs, devices.counts(), clock.now());
  drawing?.mark(ids);
  if (ids.has(selected)) card.show(devices.get(selected), clock.now());
}

function remember(items = []) {
  for (const item of items) trails.push(String(item.id), item);
}

function tick() {
  const now = clock.now();
  devices.age(now);
  changed();
  if (document.hidden) return;
  list.tick(now);
  if (selected) card.tick(devices.get(selected), now);
}

function showConnection(state) {
  badge.show(state);
  document.body.dataset.connection = state.name;
  byId("signed-out").hidden = state.name !== "signed-out";
  if (state.name === "outdated") notice("The server was updated. Reload the page.");
  if (state.name === "forbidden") notice("You may not see this map. Ask an administrator for access.");
}

function notice(text) {
  byId("notice").hidden = false;
  byId("notice-text").textContent = text;
}

// --- selection and camera --------------------------------------------------------

/** Select a device (by list, marker or null for none), fly there and follow it. */
function select(id) {
  selected = id !== null && devices.get(id) ? id : null;
  list.select(selected);
  map?.select(selected);
  document.body.classList.toggle("has-selection", selected !== null);
  if (selected === null) {
    setFollowing(false);
    return card.hide();
  }
  card.show(devices.get(selected), clock.now());
  setFollowing(true);
  showSelection();
  const place = drawing?.at(selected) ?? drawnPosition(devices.get(selected));
  if (place) map?.flyTo(place);
  return undefined;
}

function setFollowing(on) {
  following = on;
  card.following(on);
}

function toggleFollow() {
  setFollowing(!following);
  const place = selected && drawing?.at(selected);
  if (following && place) map.flyTo(place);
}

/** Trail up to the marker as it is drawn, and the ring of its accuracy. */
function showSelection() {
  const place = drawing?.at(selected);
  if (!map || !place) return;
  const trail = trails.of(selected);
  if (trail.length) trail.at(-1).splice(-1, 1, [place.lon, place.lat]);
  map.showSelection({ trail, place, accuracyM: devices.get(selected)?.acc });
}

function drawn({ add, update }) {
  if (selected === null) return;
  const isSelected = ({ id }) => id === selected;
  if (!add.some(isSelected) && !update.some(isSelected)) return;
  showSelection();
  if (following) map.follow(drawing.at(selected));
}

function fit(options) {
  const places = [...devices.all()].map(drawnPosition).filter(Boolean);
  const bounds = boundsOf(places);
  if (bounds && map) map.fit(bounds, options);
  return bounds !== null;
}

/** The first look shows everybody; afterwards the view belongs to the user. */
function fitOnce() {
  if (!fitted && map) fitted = fit({ animate: false });
}

// --- what the server should tell about -------------------------------------------

/** Tell the server the new view once the map has come to rest, or once a second. */
function settle() {
  const now = performance.now();
  clearTimeout(watchTimer);
  unsettledSince ||= now;
  const wait = Math.max(0, Math.min(SETTLE_MS, unsettledSince + LONGEST_SETTLE_MS - now));
  watchTimer = setTimeout(() => {
    unsettledSince = 0;
    const view = map.view();
    if (!movedEnough(watched, view)) return;
    watched = view;
    socket.watch(view.viewport, view.zoom);
  }, wait);
}

/** Panels lie over the map; what is fitted or flown to belongs beside them. */
function makeRoom() {
  const panel = byId("panel").getBoundingClientRect();
  map?.setPadding(narrowness.matches ? { bottom: panel.height } : { left: panel.right });
}

async function startMap() {
  try {
    const { FleetMap } = await import("./map.js");
    map = await FleetMap.create({
      container: "map", dark: darkness.matches, styleUrl: config.mapStyleUrl, attribution: config.mapAttribution,
      on: { select, settle, drag: () => setFollowing(false), notice },
    });
  } catch (error) {
    console.warn("No map:", error);
    byId("no-map").hidden = false;
    byId("fit").hidden = true;
    return socket.watch(null, 0);
  }
  drawing = new Drawing(devices, map);
  drawing.onDrawn = drawn;
  drawing.mark([...devices.all()].map(({ id }) => id));
  darkness.addEventListener("change", ({ matches }) => map.setDark(matches));
  new ResizeObserver(makeRoom).observe(byId("panel"));
  makeRoom();
  fitOnce();
  settle();
  byId("map").dataset.ready = "true";
  return undefined;
}

function listen() {
  byId("fit").addEventListener("click", () => { setFollowing(false); fit(); });
  byId("notice-close").addEventListener("click", () => { byId("notice").hidden = true; });
  byId("sheet").addEventListener("click", ({ currentTarget }) => {
    const open = byId("panel").classList.toggle("open");
    currentTarget.setAttribute("aria-expanded", String(open));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && selected !== null) select(null);
    if (event.key !== "/" || event.target.matches("input")) return;
    event.preventDefault();
    byId("search").focus();
  });
}

/** Read-only view for tests and the console: what is drawn, and how often it was told. */
window.drover = Object.freeze({
  positions: () => drawing?.positions() ?? {},
  counts: () => devices.counts(),
  selected: () => selected,
  updates: () => drawing?.updates ?? 0,
  view: () => map?.view() ?? null,
});

listen();
setInterval(tick, 1000);
socket.open();
startMap();

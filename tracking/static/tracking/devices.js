// What is known of every device: names and states from the roster, positions from
// frames. Pure. Before it: `socket.js`. After it: drawing, list, details card.

import { agedState } from "./ages.js";

const DETAILS = ["acc", "spd", "crs", "bat"];

/** A device as the page knows it: `state` is aged, `base` is the last word of the server. */
function blank(id) {
  return {
    id, name: `Device ${id}`, fleet: "", kind: "",
    base: "never", state: "never",
    heardT: null, // time of its last word: a fix, or a sign of life in the roster
    fix: null, // newest {t, lat, lon} of a frame, only while it is in the watched view
    last: null, // {lat, lon} of the roster, or of the fix that left the view
    left: false, // has left the view since the roster last spoke of it
    acc: null, spd: null, crs: null, bat: null,
  };
}

export class Devices {
  #byId = new Map();
  #changed = new Set();
  #epoch = null;

  get(id) {
    return this.#byId.get(id);
  }

  all() {
    return this.#byId.values();
  }

  get size() {
    return this.#byId.size;
  }

  /** Ids touched since the last call. */
  takeChanged() {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** `{"type":"frame"}`: newest fixes of what changed in view; `full` replaces all. */
  applyFrame(frame, now) {
    if (frame.full || (this.#epoch !== null && frame.epoch !== this.#epoch)) this.#forgetFixes();
    this.#epoch = frame.epoch ?? this.#epoch;
    for (const item of frame.items ?? []) this.#applyItem(item, now);
    for (const id of frame.gone ?? []) this.#leaveView(String(id), now);
  }

  /** `{"type":"roster"}`: who exists, with name, state and last position. */
  applyRoster(roster, now) {
    const ids = new Set((roster.items ?? []).map((item) => String(item.id)));
    if (roster.full) {
      for (const id of this.#byId.keys()) if (!ids.has(id)) this.#forget(id);
    }
    for (const item of roster.items ?? []) this.#applyRosterItem(item, now);
    for (const id of roster.gone ?? []) this.#forget(String(id));
  }

  /** `{"type":"event"}`: start, stop and lost, known before the next roster. */
  applyEvent({ event, id, t }, now) {
    const device = this.#byId.get(String(id));
    const base = { start: "live", stop: "stopped", lost: "lost" }[event];
    if (!device || !base) return;
    device.base = base;
    if (event !== "lost" && Number.isFinite(t)) device.heardT = Math.max(device.heardT ?? 0, t);
    this.#restate(device, now);
    this.#changed.add(device.id);
  }

  /** Let time pass: live becomes idle, idle becomes stale. */
  age(now) {
    for (const device of this.#byId.values()) {
      if (this.#restate(device, now)) this.#changed.add(device.id);
    }
  }

  /** Devices per state, `{all: n, live: n, …}`. */
  counts() {
    const counts = { all: this.#byId.size };
    for (const { state } of this.#byId.values()) counts[state] = (counts[state] ?? 0) + 1;
    return counts;
  }

  #applyItem(item, now) {
    const id = String(item.id);
    const device = this.#byId.get(id) ?? this.#add(id);
    // The newest fix time wins, in whatever order frames, roster and rings bring them.
    if (device.fix && item.t < device.fix.t) return;
    device.fix = { t: item.t, lat: item.lat, lon: item.lon };
    device.left = false;
    device.heardT = Math.max(device.heardT ?? 0, item.t);
    for (const key of DETAILS) device[key] = item[key] ?? null;
    device.base = item.st === "stopped" ? "stopped" : "live";
    this.#restate(device, now);
    this.#changed.add(id);
  }

  #applyRosterItem(item, now) {
    const id = String(item.id);
    const device = this.#byId.get(id) ?? this.#add(id);
    device.name = item.name || device.name;
    device.fleet = item.fleet ?? device.fleet;
    device.kind = item.kind ?? device.kind;
    if (Number.isFinite(item.lat) && Number.isFinite(item.lon)) {
      device.last = { lat: item.lat, lon: item.lon };
      device.left = false;
    }
    const outdated = device.fix && item.t !== null && item.t < device.fix.t;
    if (Number.isFinite(item.t)) device.heardT = Math.max(device.heardT ?? 0, item.t);
    if (!outdated) device.base = isSettled(item.st) ? item.st : "live";
    this.#restate(device, now);
    this.#changed.add(id);
  }

  #leaveView(id, now) {
    const device = this.#byId.get(id);
    if (!device?.fix) return;
    device.left = true;
    device.last = device.fix;
    device.fix = null;
    this.#restate(device, now);
    this.#changed.add(id);
  }

  #forgetFixes() {
    for (const device of this.#byId.values()) {
      if (device.fix) {
        device.last = device.fix;
        device.fix = null;
        this.#changed.add(device.id);
      }
    }
  }

  #forget(id) {
    if (this.#byId.delete(id)) this.#changed.add(id);
  }

  #add(id) {
    const device = blank(id);
    this.#byId.set(id, device);
    return device;
  }

  #restate(device, now) {
    const state = agedState(device.base, device.heardT, now);
    const moved = state !== device.state;
    device.state = state;
    return moved;
  }
}

const isSettled = (state) => state === "stopped" || state === "lost" || state === "never";

/** Newest known position `{lat, lon}` or null, whether it is drawn or not. */
export function lastPosition(device) {
  return device.fix ?? device.last;
}

/** When the device was last heard (epoch ms), or null. */
export function lastSeen(device) {
  return device.heardT;
}

/** Where the device is drawn, or null.
 *
 * In view, frames alone decide: the roster is seconds behind. A device that has left
 * the view is not drawn at its old place until the roster tells its new one; a lost or
 * stopped one stays where it was last seen. */
export function drawnPosition(device) {
  if (device.fix) return device.fix;
  return device.left && !isSettled(device.state) ? null : device.last;
}

// What is known of every device: names and states from the roster, positions from
// frames. Pure. Before it: `socket.js`. After it: drawing, list, details card.

import { agedState } from "./ages.js";

const DETAILS = ["acc", "spd", "crs", "bat"];

/** A device as the page knows it: `state` is aged, `base` is the last word of the server. */
function blank(id) {
  return {
    id, name: `Device ${id}`, fleet: "", kind: "", listed: false,
    base: "never", state: "never",
    fix: null, // newest from a frame, only while the device is in the watched view
    last: null, // last known {t, lat, lon} from the roster
    goneT: -Infinity, // fixes up to this time have left the view
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
  applyEvent({ event, id }, now) {
    const device = this.#byId.get(String(id));
    const base = { start: "live", stop: "stopped", lost: "lost" }[event];
    if (!device || !base) return;
    device.base = base;
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
    device.listed = true;
    if (Number.isFinite(item.lat) && Number.isFinite(item.lon) && (item.t ?? 0) >= (device.last?.t ?? 0)) {
      device.last = { t: item.t, lat: item.lat, lon: item.lon };
    }
    const outdated = device.fix && item.t !== null && item.t < device.fix.t;
    if (!outdated) device.base = isSettled(item.st) ? item.st : "live";
    this.#restate(device, now);
    this.#changed.add(id);
  }

  #leaveView(id, now) {
    const device = this.#byId.get(id);
    if (!device?.fix) return;
    device.goneT = device.fix.t;
    device.last = newest(device.last, device.fix);
    device.fix = null;
    this.#restate(device, now);
    this.#changed.add(id);
  }

  #forgetFixes() {
    for (const device of this.#byId.values()) {
      if (device.fix) {
        device.last = newest(device.last, device.fix);
        device.fix = null;
        this.#changed.add(device.id);
      }
      device.goneT = -Infinity;
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
    const state = agedState(device.base, lastSeen(device), now);
    const moved = state !== device.state;
    device.state = state;
    return moved;
  }
}

const isSettled = (state) => state === "stopped" || state === "lost" || state === "never";
const newest = (a, b) => (!a || (b && b.t >= a.t) ? b : a);

/** Newest known position `{t, lat, lon}` or null, whether it is drawn or not. */
export function lastPosition(device) {
  return newest(device.last, device.fix);
}

/** Time of the newest known position (epoch ms) or null. */
export function lastSeen(device) {
  return lastPosition(device)?.t ?? null;
}

/** Where the device is drawn, or null.
 *
 * A device that has left the view is not drawn at its old place, until the roster
 * knows a newer one; a lost or stopped one stays where it was last seen. */
export function drawnPosition(device) {
  if (device.fix) return newest(device.last, device.fix);
  const { last } = device;
  if (!last) return null;
  return last.t > device.goneT || isSettled(device.state) ? last : null;
}

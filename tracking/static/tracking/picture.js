// What is drawn, and the smallest change from there to what is known. Pure.
// Before it: changed devices. After it: one `updateData` per animation frame.

import { drawnPosition } from "./devices.js";
import { distanceM } from "./geo.js";
import { iconOf, turnOf } from "./icons.js";
import { Glides, MOST_GLIDES } from "./motion.js";

/** Shorter moves than this cannot be seen; longer ones are not a drive but a jump. */
const LEAST_GLIDE_PX = 1;
const MOST_GLIDE_PX = 300;

const LAYERING = { lost: 3, stale: 2, live: 1, idle: 1, stopped: 0, never: 0 };

function propertiesOf(device) {
  return {
    id: device.id, name: device.name, state: device.state, icon: iconOf(device),
    turn: turnOf(device), order: LAYERING[device.state],
  };
}

export class Picture {
  #drawn = new Map();
  #glides = new Glides();

  /** Whether markers are still on their way. */
  get moving() {
    return this.#glides.size > 0;
  }

  /** Where a device is drawn now, `{lon, lat}` or undefined. */
  at(id) {
    return this.#drawn.get(id)?.place;
  }

  /** Everything drawn: id → `{lon, lat, state}`. */
  snapshot() {
    return Object.fromEntries(
      [...this.#drawn].map(([id, { place, properties }]) => [id, { ...place, state: properties.state }]),
    );
  }

  /** The change for `updateData`, or null when nothing differs.
   *
   * `changed` holds [id, device | undefined]; `metresPerPixel(lat)` null draws no glides. */
  diff(changed, now, metresPerPixel) {
    const diff = { add: [], remove: [], update: new Map() };
    for (const [id, device] of changed) this.#compare(diff, id, device, now, metresPerPixel);
    for (const [id, place] of this.#glides.step(now)) this.#move(diff, id, place);
    const update = [...diff.update.values()];
    if (!diff.add.length && !diff.remove.length && !update.length) return null;
    return { add: diff.add, remove: diff.remove, update };
  }

  #compare(diff, id, device, now, metresPerPixel) {
    const place = device ? drawnPosition(device) : null;
    const drawn = this.#drawn.get(id);
    if (!place) {
      if (drawn) this.#erase(diff, id);
    } else if (!drawn) {
      this.#add(diff, device, place);
    } else {
      this.#retouch(diff, device, drawn);
      this.#head(diff, id, drawn, place, now, metresPerPixel);
    }
  }

  #add(diff, device, { lon, lat }) {
    const properties = propertiesOf(device);
    this.#drawn.set(device.id, { place: { lon, lat }, target: { lon, lat }, properties });
    diff.add.push({ type: "Feature", id: device.id, geometry: point({ lon, lat }), properties });
  }

  #erase(diff, id) {
    this.#drawn.delete(id);
    this.#glides.stop(id);
    diff.remove.push(id);
  }

  #retouch(diff, device, drawn) {
    const properties = propertiesOf(device);
    const touched = Object.entries(properties)
      .filter(([key, value]) => drawn.properties[key] !== value)
      .map(([key, value]) => ({ key, value }));
    if (!touched.length) return;
    drawn.properties = properties;
    entry(diff, device.id).addOrUpdateProperties = touched;
  }

  /** Glide or jump towards a place that differs from the present target. */
  #head(diff, id, drawn, { lon, lat }, now, metresPerPixel) {
    if (drawn.target.lon === lon && drawn.target.lat === lat) return;
    drawn.target = { lon, lat };
    const pixels = metresPerPixel ? distanceM(drawn.place, drawn.target) / metresPerPixel(lat) : 0;
    const glides = pixels >= LEAST_GLIDE_PX && pixels <= MOST_GLIDE_PX && this.#glides.size < MOST_GLIDES;
    if (glides) this.#glides.start(id, drawn.place, drawn.target, now);
    else {
      this.#glides.stop(id);
      this.#move(diff, id, drawn.target);
    }
  }

  #move(diff, id, place) {
    this.#drawn.get(id).place = place;
    entry(diff, id).newGeometry = point(place);
  }
}

const point = ({ lon, lat }) => ({ type: "Point", coordinates: [lon, lat] });

function entry(diff, id) {
  if (!diff.update.has(id)) diff.update.set(id, { id });
  return diff.update.get(id);
}

// Brings changes to the map at most once per animation frame, and never faster than
// the map takes them. Before it: `devices.js` via `picture.js`. After it: `map.js`.

import { metresPerPixel } from "./geo.js";
import { Picture } from "./picture.js";

export class Drawing {
  #devices;
  #map;
  #picture = new Picture();
  #waiting = new Set();
  #scheduled = false;
  #busy = false;
  #stillness = window.matchMedia("(prefers-reduced-motion: reduce)");
  /** How often the source was told something; read by tests. */
  updates = 0;
  onDrawn = () => {};

  constructor(devices, map) {
    this.#devices = devices;
    this.#map = map;
  }

  /** Where a device is drawn now, `{lon, lat}` or undefined. */
  at(id) {
    return this.#picture.at(id);
  }

  positions() {
    return this.#picture.snapshot();
  }

  /** Draw these devices with the next frame; a hidden page only remembers them. */
  mark(ids) {
    for (const id of ids) this.#waiting.add(id);
    this.#schedule();
  }

  #schedule() {
    if (this.#scheduled || this.#busy) return;
    this.#scheduled = true;
    requestAnimationFrame((now) => this.#step(now));
  }

  async #step(now) {
    this.#scheduled = false;
    const changed = [...this.#waiting].map((id) => [id, this.#devices.get(id)]);
    this.#waiting.clear();
    const diff = this.#picture.diff(changed, now, this.#scale());
    if (diff) await this.#show(diff);
    if (this.#waiting.size || this.#picture.moving) this.#schedule();
  }

  async #show(diff) {
    this.#busy = true;
    this.updates += 1;
    try {
      await this.#map.update(diff);
      this.onDrawn(diff);
    } finally {
      this.#busy = false;
    }
  }

  /** No glides for readers who asked for less motion. */
  #scale() {
    if (this.#stillness.matches) return null;
    const zoom = this.#map.zoom;
    return (lat) => metresPerPixel(lat, zoom);
  }
}

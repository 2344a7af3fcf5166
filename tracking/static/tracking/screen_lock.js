// Keeps the screen on while tracking, where the browser can and the user wants it.
// Before it: `phone.js`. After it: the Screen Wake Lock API.

export class ScreenLock {
  #box;
  #lock = null;
  #wanted = false;

  /** `box` is the user's checkbox; it hides where the browser has no wake lock. */
  constructor(box) {
    this.#box = box;
    box.closest("label").hidden = !("wakeLock" in navigator);
    box.addEventListener("change", () => this.#apply());
    // The system takes the lock away whenever the page is hidden.
    document.addEventListener("visibilitychange", () => this.#apply());
  }

  want(wanted) {
    if (wanted === this.#wanted) return;
    this.#wanted = wanted;
    this.#apply();
  }

  async #apply() {
    const on = this.#wanted && this.#box.checked && !document.hidden && "wakeLock" in navigator;
    if (!on) {
      await this.#lock?.release();
      this.#lock = null;
    } else if (!this.#lock || this.#lock.released) {
      // Refused on a low battery: tracking itself does not depend on it.
      this.#lock = await navigator.wakeLock.request("screen").catch(() => null);
    }
  }
}

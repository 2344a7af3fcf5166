// The details of the selected device.
// Before it: selection in `live.js`. After it: follow, close, the device's admin page.

import { ageText } from "./ages.js";
import { lastPosition, lastSeen } from "./devices.js";
import { iconOf, iconSvg, setIcon } from "./icons.js";
import { accuracyText, batteryText, courseText, speedText, STATES } from "./words.js";

export class Card {
  #root;
  #icon = iconSvg("never");
  #adminUrl;

  /** `on`: `follow()`, `close()`; `adminUrl` of the device pages, or "" without access. */
  constructor(root, adminUrl, on) {
    this.#root = root;
    this.#adminUrl = adminUrl;
    this.#part("icon").append(this.#icon);
    this.#part("follow").addEventListener("click", () => on.follow());
    this.#part("close").addEventListener("click", () => on.close());
  }

  show(device, now) {
    this.#root.hidden = false;
    this.#root.dataset.state = device.state;
    setIcon(this.#icon, iconOf(device));
    this.#text("name", device.name);
    this.#text("about", [device.fleet, device.kind].filter(Boolean).join(" · "));
    this.#text("state", `${STATES[device.state].label}: ${STATES[device.state].hint}`);
    this.#text("speed", speedText(device.spd));
    this.#text("course", courseText(device.crs));
    this.#text("accuracy", accuracyText(device.acc));
    this.#text("battery", batteryText(device.bat));
    this.#text("place", placeText(lastPosition(device)));
    this.#link(device.id);
    this.tick(device, now);
  }

  /** Rewrite what time alone changes. */
  tick(device, now) {
    const t = lastSeen(device);
    this.#text("age", ageText(t, now));
    this.#text("time", t === null ? "–" : new Date(t).toLocaleTimeString());
  }

  following(isFollowing) {
    const button = this.#part("follow");
    button.setAttribute("aria-pressed", String(isFollowing));
    this.#text("follow", isFollowing ? "Following" : "Follow");
  }

  hide() {
    this.#root.hidden = true;
  }

  #link(id) {
    const link = this.#part("admin");
    if (!link) return;
    link.hidden = !this.#adminUrl;
    link.href = `${this.#adminUrl}${encodeURIComponent(id)}/change/`;
  }

  #part(name) {
    return this.#root.querySelector(`[data-card="${name}"]`);
  }

  #text(name, text) {
    const element = this.#part(name);
    if (element.textContent !== text) element.textContent = text;
  }
}

function placeText(position) {
  if (!position) return "–";
  const { lat, lon } = position;
  const ns = `${Math.abs(lat).toFixed(4)}° ${lat < 0 ? "S" : "N"}`;
  return `${ns}, ${Math.abs(lon).toFixed(4)}° ${lon < 0 ? "W" : "E"}`;
}

// The side list: search, state chips with counts, one row per device.
// Before it: `devices.js`. After it: selection by `live.js`. Untouched rows stay untouched.

import { ageText } from "./ages.js";
import { lastSeen } from "./devices.js";
import { iconOf, iconSvg, setIcon } from "./icons.js";
import { speedText, STATES } from "./words.js";

const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

export class DeviceList {
  #root;
  #rows = new Map(); // id → {item, button, icon, name, about, age, device}
  #chips = new Map();
  #states = new Set();
  #search = "";
  #unsorted = false;
  #loaded = false;

  /** `on`: `select(id)`, `states(set)`. */
  constructor(root, on) {
    this.#root = (name) => root.querySelector(`[data-list="${name}"]`);
    for (const state of ["all", ...Object.keys(STATES)]) this.#addChip(state, on);
    this.#root("search").addEventListener("input", ({ target }) => {
      this.#search = target.value.trim().toLowerCase();
      this.#filter();
    });
    this.#root("clear").addEventListener("click", () => this.#clear(on));
    this.#root("rows").addEventListener("click", ({ target }) => {
      const row = target.closest("[data-id]");
      if (row) on.select(row.dataset.id);
    });
    this.#root("rows").addEventListener("keydown", (event) => this.#walk(event));
  }

  /** Bring rows of these ids up to date: [id, device | undefined]. */
  update(changed, counts, now) {
    for (const [id, device] of changed) {
      if (device) this.#put(device, now);
      else this.#remove(id);
    }
    if (this.#unsorted) this.#sort();
    this.#count(counts);
    this.#filter();
  }

  /** The roster has arrived: from now on an empty list means that there is nobody. */
  loaded(counts) {
    this.#loaded = true;
    this.#count(counts);
    this.#filter();
  }

  /** Rewrite the ages that read differently now. */
  tick(now) {
    for (const row of this.#rows.values()) setText(row.age, ageText(lastSeen(row.device), now));
  }

  /** Mark one row as the selected one, and bring it into sight. */
  select(id) {
    for (const [rowId, { button }] of this.#rows) button.setAttribute("aria-pressed", String(rowId === id));
    this.#rows.get(id)?.button.scrollIntoView({ block: "nearest" });
  }

  #put(device, now) {
    const row = this.#rows.get(device.id) ?? this.#addRow(device);
    if (row.name.textContent !== device.name) {
      row.name.textContent = device.name;
      this.#unsorted = true;
    }
    row.item.dataset.state = device.state;
    setIcon(row.icon, iconOf(device));
    setText(row.about, aboutText(device));
    setText(row.age, ageText(lastSeen(device), now));
  }

  #addRow(device) {
    const make = (tag, className) => Object.assign(document.createElement(tag), { className });
    const item = make("li", "device");
    const button = make("button", "row");
    button.type = "button";
    button.dataset.id = device.id;
    button.setAttribute("aria-pressed", "false");
    const [icon, words] = [iconSvg(iconOf(device)), make("span", "words")];
    const [name, about, age] = [make("span", "name"), make("span", "about"), make("span", "age")];
    words.append(name, about);
    button.append(icon, words, age);
    item.append(button);
    const row = { item, button, icon, name, about, age, device };
    this.#rows.set(device.id, row);
    this.#root("rows").append(item);
    return row;
  }

  #remove(id) {
    this.#rows.get(id)?.item.remove();
    this.#rows.delete(id);
  }

  #sort() {
    this.#unsorted = false;
    const rows = [...this.#rows.values()];
    rows.sort((a, b) => order.compare(a.device.name, b.device.name));
    this.#root("rows").append(...rows.map(({ item }) => item));
  }

  #filter() {
    let shown = 0;
    for (const { item, device } of this.#rows.values()) {
      const fits = this.#fits(device);
      if (item.hidden === fits) item.hidden = !fits;
      shown += fits;
    }
    const nobody = this.#rows.size === 0;
    this.#root("rows").hidden = shown === 0;
    this.#root("empty").hidden = !(nobody && this.#loaded);
    this.#root("waiting").hidden = !(nobody && !this.#loaded);
    this.#root("nothing").hidden = nobody || shown > 0;
    const narrowed = shown < this.#rows.size;
    setText(this.#root("shown"), narrowed ? `${shown} of ${this.#rows.size} devices` : "");
  }

  #fits({ state, name, fleet }) {
    if (this.#states.size && !this.#states.has(state)) return false;
    return !this.#search || `${name} ${fleet}`.toLowerCase().includes(this.#search);
  }

  #addChip(state, on) {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.className = "chip";
    chip.dataset.state = state;
    chip.title = STATES[state]?.hint ?? "every device";
    if (state !== "all") chip.append(iconSvg(state));
    const count = document.createElement("b");
    chip.append(STATES[state]?.label ?? "All", " ", count);
    chip.addEventListener("click", () => this.#toggle(state, on));
    this.#chips.set(state, { chip, count });
    this.#root("chips").append(chip);
    this.#press();
  }

  #toggle(state, on) {
    if (state === "all") this.#states.clear();
    else if (!this.#states.delete(state)) this.#states.add(state);
    this.#press();
    this.#filter();
    on.states(this.#states);
  }

  #clear(on) {
    this.#root("search").value = this.#search = "";
    this.#toggle("all", on);
  }

  #press() {
    for (const [state, { chip }] of this.#chips) {
      const on = state === "all" ? this.#states.size === 0 : this.#states.has(state);
      chip.setAttribute("aria-pressed", String(on));
    }
  }

  #count(counts) {
    for (const [state, { chip, count }] of this.#chips) {
      setText(count, String(counts[state] ?? 0));
      // A state that nobody is in takes no room, unless it is being filtered by.
      chip.hidden = state === "never" && !counts[state] && !this.#states.has(state);
    }
  }

  /** Arrow keys walk through the visible rows. */
  #walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...this.#root("rows").querySelectorAll("li:not([hidden]) button")];
    rows[rows.indexOf(document.activeElement) + step]?.focus();
  }
}

function aboutText({ state, fleet, spd }) {
  const doing = state === "live" ? speedText(spd) : STATES[state].label;
  return [fleet, doing === "–" ? STATES[state].label : doing].filter(Boolean).join(" · ");
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Fixes that the server has not answered yet, kept over reloads and outages.
// Before it: `phone_filter.js`. After it: `phone_tracker.js` sends them, oldest first.

const KEY = "drover.phone.queue";
/** About a day of city driving; what comes on top pushes the oldest out. */
export const MOST_FIXES = 2000;

export class FixQueue {
  #storage;
  #items;
  /** How many fixes were given up because the buffer was full. */
  dropped = 0;

  /** `storage` is localStorage or anything with getItem and setItem. */
  constructor(storage) {
    this.#storage = storage;
    this.#items = read(storage);
  }

  get size() {
    return this.#items.length;
  }

  /** Keep a fix under a client id of its own; returns the id. */
  push(fix) {
    const id = `${fix.fixed_at.toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
    this.#items.push({ id, fix });
    while (this.#items.length > MOST_FIXES) {
      this.#items.shift();
      this.dropped += 1;
    }
    this.#save();
    return id;
  }

  /** The oldest `count` entries, `{id, fix}`. */
  oldest(count) {
    return this.#items.slice(0, count);
  }

  /** Forget what the server has answered. */
  remove(ids) {
    const answered = new Set(ids);
    this.#items = this.#items.filter(({ id }) => !answered.has(id));
    this.#save();
  }

  /** Storage may be full or forbidden; tracking goes on from memory. */
  #save() {
    try {
      this.#storage.setItem(KEY, JSON.stringify(this.#items));
    } catch (error) {
      console.warn("Fixes are kept in memory only:", error);
    }
  }
}

function read(storage) {
  try {
    const items = JSON.parse(storage.getItem(KEY) ?? "[]");
    return Array.isArray(items) ? items.filter((item) => item?.id && item.fix) : [];
  } catch {
    return [];
  }
}

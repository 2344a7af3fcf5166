// What the server has not answered yet, kept over reloads and outages, for each token.
// Before it: `phone_filter.js`. After it: `phone_tracker.js` sends it, oldest first.

const FIXES_KEY = "drover.phone.queue";
const STOPS_KEY = "drover.phone.stops";
/** About a day of city driving; what comes on top pushes the oldest out. */
export const MOST_FIXES = 2000;
const MOST_STOPS = 20;

/** Fixes and an unanswered Stop belong to the token they were made under: no other sees them. */
export class FixQueue {
  #storage;
  #items; // of all tokens: {id, owner, fix}
  #stops; // owners whose Stop is not answered
  #owner = "";
  /** How many fixes were given up because the buffer was full. */
  dropped = 0;

  /** `storage` is localStorage or anything with getItem and setItem. */
  constructor(storage) {
    this.#storage = storage;
    this.#items = read(storage, FIXES_KEY).filter((item) => item?.id && item.owner && item.fix);
    this.#stops = read(storage, STOPS_KEY);
  }

  owns(token) {
    return ownerOf(token) === this.#owner;
  }

  /** From now on, everything is about this token's fixes. */
  belongTo(token) {
    this.#owner = ownerOf(token);
  }

  get size() {
    return this.#own().length;
  }

  /** Keep a fix under a client id of its own; returns the id. */
  push(fix) {
    const id = `${fix.fixed_at.toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
    this.#items.push({ id, owner: this.#owner, fix });
    while (this.#items.length > MOST_FIXES) {
      this.#items.shift();
      this.dropped += 1;
    }
    this.#save(FIXES_KEY, this.#items);
    return id;
  }

  /** The oldest `count` entries, `{id, fix}`. */
  oldest(count) {
    return this.#own().slice(0, count);
  }

  /** Forget what the server has answered. */
  remove(ids) {
    const answered = new Set(ids);
    this.#items = this.#items.filter(({ id }) => !answered.has(id));
    this.#save(FIXES_KEY, this.#items);
  }

  get stopWaits() {
    return this.#stops.includes(this.#owner);
  }

  set stopWaits(waits) {
    if (waits === this.stopWaits) return;
    const others = this.#stops.filter((owner) => owner !== this.#owner);
    this.#stops = waits ? [...others, this.#owner].slice(-MOST_STOPS) : others;
    this.#save(STOPS_KEY, this.#stops);
  }

  #own() {
    return this.#items.filter(({ owner }) => owner === this.#owner);
  }

  /** Storage may be full or forbidden; tracking goes on from memory. */
  #save(key, value) {
    try {
      this.#storage.setItem(key, JSON.stringify(value));
    } catch (error) {
      console.warn("Fixes are kept in memory only:", error);
    }
  }
}

/** Names a token without giving it away: FNV-1a, 64 bits; "" for none.
 *
 * Web Crypto would answer only later, and not at all on a page without https. */
function ownerOf(token) {
  if (!token) return "";
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(token)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16);
}

function read(storage, key) {
  try {
    const items = JSON.parse(storage.getItem(key) ?? "[]");
    return Array.isArray(items) ? items : [];
  } catch {
    return [];
  }
}

// Glides a marker from where it is drawn to where it now is, instead of jumping.
// Pure. Before it: a newer position in `drawing.js`. After it: one diff per frame.

/** How long a marker takes to its new place; a little under the pace of most phones. */
export const GLIDE_MS = 900;
/** Above this many moving markers they jump: a smooth map matters more. */
export const MOST_GLIDES = 400;

export class Glides {
  #active = new Map();

  get size() {
    return this.#active.size;
  }

  /** Start towards `to` from `from` (both `{lon, lat}`) at `now` ms. */
  start(id, from, to, now) {
    this.#active.set(id, { from, to: nearest(from, to), end: to, since: now });
  }

  stop(id) {
    this.#active.delete(id);
  }

  /** Positions of all that move at `now`: `[id, {lon, lat}]`; arrived ones end exactly. */
  step(now) {
    const moves = [];
    for (const [id, { from, to, end, since }] of this.#active) {
      const share = (now - since) / GLIDE_MS;
      if (share >= 1) {
        this.#active.delete(id);
        moves.push([id, end]);
      } else {
        moves.push([id, between(from, to, Math.max(0, share))]);
      }
    }
    return moves;
  }
}

const between = (a, b, share) => ({
  lon: a.lon + (b.lon - a.lon) * share,
  lat: a.lat + (b.lat - a.lat) * share,
});

/** The copy of `to` on the same side of the antimeridian as `from`. */
function nearest(from, to) {
  const lap = Math.round((from.lon - to.lon) / 360) * 360;
  return { lon: to.lon + lap, lat: to.lat };
}

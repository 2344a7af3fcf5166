// Times as people read them, measured on the server's clock.
// Before it: `hello.now` of the live socket. After it: list, details card, states.

export const IDLE_MS = 30_000;
export const STALE_MS = 60_000;

/** The server's clock, as far as this browser knows it. */
export class ServerClock {
  #offset = 0;

  /** Take `serverNow` (epoch ms) as the present. */
  sync(serverNow, localNow = Date.now()) {
    if (Number.isFinite(serverNow)) this.#offset = serverNow - localNow;
  }

  now(localNow = Date.now()) {
    return localNow + this.#offset;
  }
}

/** What a device's last word means `now`: a state that time alone may change.
 *
 * Lost, stopped and never are the server's to say; a browser only lets a live
 * device become idle (> 30 s without word) and stale (> 60 s). */
export function agedState(state, t, now) {
  if (state === "stopped" || state === "lost" || state === "never") return state;
  if (t === null) return "never";
  const age = now - t;
  if (age > STALE_MS) return "stale";
  return age > IDLE_MS ? "idle" : "live";
}

/** "now", "42 s ago", "3 min ago", "2 h ago", "5 d ago". */
export function ageText(t, now) {
  if (t === null || t === undefined) return "no position yet";
  const seconds = Math.max(0, Math.floor((now - t) / 1000));
  if (seconds < 3) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} d ago`;
}

// How long to wait before the next connection attempt. Pure.
// Before it: a closed socket. After it: `socket.js` and `phone_socket.js`.

const FIRST_MS = 500;
const LONGEST_MS = 30_000;

/** Milliseconds before attempt number `attempt` (0 is the first retry).
 *
 * Exponential from 0.5 s to 30 s; half of it is random, so that a thousand
 * browsers do not return in the same second after a deploy. */
export function retryDelay(attempt, random = Math.random) {
  const ceiling = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
  return Math.round(Math.max(FIRST_MS, ceiling / 2 + (ceiling / 2) * random()));
}

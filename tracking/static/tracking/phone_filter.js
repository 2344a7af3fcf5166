// The phone's rule: send a fix only when it says something new. Pure.
// Before it: readings of the geolocation API. After it: `phone_queue.js`.

import { distanceM } from "./geo.js";

const PRECISE_M = 10;

/** What counts as moved between two fixes, in metres.
 *
 * A place known to ±40 m that shifts by 30 m has not moved: where either accuracy is
 * worse than 10 m, the sum of both is the threshold. */
export function movedThresholdM(a, b, minDistanceM) {
  const [first, second] = [a.accuracy_m ?? 0, b.accuracy_m ?? 0];
  const sum = first > PRECISE_M || second > PRECISE_M ? first + second : 0;
  return Math.max(minDistanceM, sum);
}

/** Whether to send `fix` after `last` (the last one sent, or null), and why.
 *
 * Returns `{send, reason}`; reason is first, moved, heartbeat, "not moved" or "not newer". */
export function decide(last, fix, { minDistanceM, heartbeatS }) {
  if (last === null) return { send: true, reason: "first" };
  if (fix.fixed_at <= last.fixed_at) return { send: false, reason: "not newer" };
  if (distanceM(last, fix) > movedThresholdM(last, fix, minDistanceM)) return { send: true, reason: "moved" };
  const isDue = fix.fixed_at - last.fixed_at >= heartbeatS * 1000;
  return isDue ? { send: true, reason: "heartbeat" } : { send: false, reason: "not moved" };
}

/** A browser's GeolocationPosition as the fix that goes over the wire. */
export function toFix({ coords, timestamp }) {
  const fix = { lat: coords.latitude, lon: coords.longitude, fixed_at: Math.round(timestamp) };
  const extras = {
    accuracy_m: coords.accuracy, speed_mps: coords.speed, course_deg: coords.heading, altitude_m: coords.altitude,
  };
  for (const [name, value] of Object.entries(extras)) if (Number.isFinite(value)) fix[name] = value;
  return fix;
}

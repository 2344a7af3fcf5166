// Names of states, speeds and directions, the same in list, card and map.
// Pure. Read by list, card and badge.

/** State → what it means, in the order of the filter chips. */
export const STATES = {
  live: { label: "Live", hint: "heard from within 30 s" },
  idle: { label: "Idle", hint: "no word for more than 30 s" },
  stale: { label: "Stale", hint: "no word for more than 60 s" },
  lost: { label: "Lost", hint: "went silent without saying stop" },
  stopped: { label: "Stopped", hint: "ended its journey" },
  never: { label: "New", hint: "has not sent a position yet" },
};

const POINTS = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];

/** m/s → "52 km/h"; null → "–". */
export function speedText(mps) {
  if (mps === null || mps === undefined) return "–";
  return `${Math.round(mps * 3.6)} km/h`;
}

/** Degrees → "NE 45°"; null → "–". */
export function courseText(degrees) {
  if (degrees === null || degrees === undefined) return "–";
  const course = ((degrees % 360) + 360) % 360;
  return `${POINTS[Math.round(course / 45) % 8]} ${Math.round(course)}°`;
}

/** Metres → "± 12 m" or "± 1.4 km"; null → "–". */
export function accuracyText(metres) {
  if (metres === null || metres === undefined) return "–";
  return metres < 1000 ? `± ${Math.round(metres)} m` : `± ${(metres / 1000).toFixed(1)} km`;
}

/** 0–100 → "81 %"; null → "–". */
export function batteryText(percent) {
  return percent === null || percent === undefined ? "–" : `${Math.round(percent)} %`;
}

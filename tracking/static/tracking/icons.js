// One drawing per state: shape and colour both tell it. The same outlines become
// WebGL images on the map and SVG in the list. After it: `map.js`, chips, list, card.

const SIZE = 30;
const RATIO = 2;
const SVG = "http://www.w3.org/2000/svg";

const disc = (r) => `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
const PAUSE = "M-3.6-3.6h2.5v7.2h-2.5ZM1.1-3.6h2.5v7.2h-2.5Z";
const EXCLAMATION = "M-1.2-5.8h2.4v6.6h-2.4ZM-1.2 2.4h2.4v2.4h-2.4Z";
const SQUARE = "M-7-4A3 3 0 0 1-4-7H4A3 3 0 0 1 7-4V4A3 3 0 0 1 4 7H-4A3 3 0 0 1-7 4Z";

/** Icon → outline around (0, 0) pointing north, and what is cut out of it. */
const SHAPES = {
  live: { outline: "M0-11L8.5 9L0 4.8L-8.5 9Z" },
  "live-still": { outline: disc(7.5), cut: disc(2.6) },
  idle: { outline: "M0-11.5L6.6-3.6A8 8 0 1 1-6.6-3.6Z", cut: disc(2.8) },
  stale: { outline: disc(7.5), cut: disc(4.3) }, // hollow: not to be relied on
  lost: { outline: "M0-10.5L10.5 0L0 10.5L-10.5 0Z", cut: EXCLAMATION },
  stopped: { outline: SQUARE, cut: PAUSE },
  never: { outline: disc(5), cut: disc(3.4) },
};

export const ICONS = Object.keys(SHAPES);

/** Image id for a device: a live one without a course has no arrow to point. */
export function iconOf({ state, crs }) {
  return state === "live" && (crs === null || crs === undefined) ? "live-still" : state;
}

/** Degrees to turn the image; only shapes with a nose turn. */
export function turnOf({ state, crs }) {
  return state === "live" || state === "idle" ? (crs ?? 0) : 0;
}

/** The icon as `{data: ImageData, options}` for `map.addImage`. */
export function iconImage(icon, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE * RATIO;
  const pen = canvas.getContext("2d");
  pen.scale(RATIO, RATIO);
  pen.translate(SIZE / 2, SIZE / 2);
  paint(pen, icon, colours);
  const data = pen.getImageData(0, 0, canvas.width, canvas.height);
  return { data, options: { pixelRatio: RATIO } };
}

function paint(pen, icon, colours) {
  const { outline, cut } = SHAPES[icon];
  pen.lineJoin = "round";
  pen.lineWidth = 4;
  pen.strokeStyle = colours.outline;
  pen.shadowColor = colours.shadow;
  pen.shadowBlur = 3 * RATIO;
  pen.shadowOffsetY = RATIO;
  pen.stroke(new Path2D(outline));
  pen.shadowColor = "transparent";
  pen.fillStyle = colours[icon.split("-")[0]];
  pen.fill(new Path2D(outline));
  pen.fillStyle = colours.outline;
  if (cut) pen.fill(new Path2D(cut));
}

/** The icon as an SVG element whose colour follows `data-state` in the style sheet. */
export function iconSvg(icon) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "-12 -12 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon");
  svg.append(document.createElementNS(SVG, "path"));
  setIcon(svg, icon);
  return svg;
}

/** Change what an SVG from `iconSvg` shows. */
export function setIcon(svg, icon) {
  if (svg.dataset.icon === icon) return;
  svg.dataset.icon = icon;
  const { outline, cut = "" } = SHAPES[icon];
  svg.firstChild.setAttribute("d", outline + cut);
  svg.firstChild.setAttribute("fill-rule", "evenodd");
}

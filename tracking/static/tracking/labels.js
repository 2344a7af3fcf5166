// Names on the map as images: offline there are no font files for WebGL text.
// Before it: image ids of the style. After it: `map.addImage`.

const RATIO = 2;
const FONT = '"Inter", "Segoe UI", system-ui, -apple-system, "Helvetica Neue", sans-serif';

const KINDS = {
  city: (c) => ({ font: `500 12px ${FONT}`, colour: c.city, halo: c.halo, dot: c.city }),
  country: (c) => ({ font: `600 11px ${FONT}`, colour: c.country, halo: c.halo, spacing: 1.5, upper: true }),
  sea: (c) => ({ font: `italic 400 12px ${FONT}`, colour: c.sea, halo: c.seaHalo, spacing: 0.8 }),
  device: (c) => ({ font: `600 12px ${FONT}`, colour: c.label, halo: c.labelHalo }),
};

/** `"place:city:Paris"` or `"device:Van 3"` → what to draw, or null for another image. */
export function parseLabel(id) {
  const [scope, ...rest] = id.split(":");
  if (scope === "device") return { kind: "device", text: rest.join(":") };
  if (scope !== "place") return null;
  const [kind, ...name] = rest;
  return { kind, text: name.join(":") };
}

/** The label as `{data: ImageData, options}` for `map.addImage`. */
export function labelImage({ kind, text }, colours) {
  const look = KINDS[kind](colours);
  const words = look.upper ? text.toUpperCase() : text;
  const canvas = document.createElement("canvas");
  const pen = canvas.getContext("2d");
  applyFont(pen, look);
  const dotWidth = look.dot ? 10 : 0;
  canvas.width = Math.ceil((pen.measureText(words).width + dotWidth + 8) * RATIO);
  canvas.height = 20 * RATIO;
  pen.scale(RATIO, RATIO);
  applyFont(pen, look);
  if (look.dot) drawDot(pen, look);
  pen.lineWidth = 3;
  pen.lineJoin = "round";
  pen.strokeStyle = look.halo;
  pen.strokeText(words, dotWidth + 4, 10);
  pen.fillStyle = look.colour;
  pen.fillText(words, dotWidth + 4, 10);
  const data = pen.getImageData(0, 0, canvas.width, canvas.height);
  return { data, options: { pixelRatio: RATIO } };
}

/** Resizing a canvas forgets its font, so it is set before and after. */
function applyFont(pen, { font, spacing = 0 }) {
  pen.font = font;
  pen.textBaseline = "middle";
  pen.letterSpacing = `${spacing}px`;
}

function drawDot(pen, { colour, halo }) {
  pen.beginPath();
  pen.arc(5, 10, 3.6, 0, 2 * Math.PI);
  pen.fillStyle = halo;
  pen.fill();
  pen.beginPath();
  pen.arc(5, 10, 2.4, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
}

// The phone page: token, Start and Stop, and an honest account of what was sent.
// Before it: `phone.html`. After it: `phone_tracker.js`.

import { ageText } from "./ages.js";
import { Badge } from "./badge.js";
import { FixQueue } from "./phone_queue.js";
import { DeviceSocket } from "./phone_socket.js";
import { Tracker } from "./phone_tracker.js";
import { ScreenLock } from "./screen_lock.js";
import { accuracyText, speedText } from "./words.js";

const TOKEN_KEY = "drover.phone.token";

const byId = (id) => document.getElementById(id);
const badge = new Badge(byId("badge"));
const screenLock = new ScreenLock(byId("awake"));
const tracker = new Tracker(new FixQueue(localStorage), { onChange: render });
let socket = null;
let connectionDetail = "";

const HEADINGS = {
  idle: ["Not tracking", "Press Start when you set off."],
  tracking: ["Tracking", "Keep this page open and visible."],
  stopping: ["Stopping…", "The last position is being saved."],
  stopped: ["Stopped", "Your last position is saved. You may close this page."],
};

/** A token in the fragment never reaches a server log; it is kept and hidden at once. */
function tokenFromAddress() {
  const token = new URLSearchParams(window.location.hash.slice(1)).get("token");
  if (!token) return;
  localStorage.setItem(TOKEN_KEY, token.trim());
  history.replaceState(null, "", window.location.pathname);
}

function connect() {
  const token = localStorage.getItem(TOKEN_KEY);
  // Before the old connection closes: a journey under another token ends over it.
  if (tracker.belongTo(token)) byId("device").textContent = connectionDetail = "";
  socket?.close();
  socket = null;
  document.body.classList.toggle("has-token", Boolean(token));
  if (token) openSocket(token);
  render();
}

function openSocket(token) {
  const url = new URL(document.body.dataset.socket, window.location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  socket = new DeviceSocket(url.href, token, { onState: showConnection, onHello: welcomed });
  tracker.use(socket);
  try {
    socket.open();
  } catch {
    showConnection({ name: "refused", detail: "That is not a device token: it has characters that no token has." });
  }
}

function welcomed(hello) {
  byId("device").textContent = hello.name || `Device ${hello.device}`;
  tracker.welcomed(hello);
}

function showConnection(state) {
  badge.show(state);
  connectionDetail = state.name === "refused"
    ? state.detail || "The server does not accept this token. It may have been revoked: get a new one."
    : (state.detail ?? "");
  render();
}

function render() {
  const [heading, advice] = HEADINGS[tracker.state];
  const offline = tracker.state === "stopping" && !socket?.ready;
  text("heading", heading);
  text("advice", offline ? "Will be saved when the connection is back. Leave this page open." : advice);
  document.body.dataset.tracking = tracker.state;
  byId("start").hidden = tracker.state === "tracking" || (tracker.state === "stopping" && !offline);
  byId("stop").hidden = tracker.state !== "tracking";
  byId("start").disabled = !canTrack() || !socket;
  text("problem", tracker.problem || connectionDetail);
  byId("problem").hidden = !(tracker.problem || connectionDetail);
  renderFigures();
  screenLock.want(tracker.state === "tracking");
}

function renderFigures() {
  const { counts, buffered, dropped, last, answer } = tracker;
  text("taken", counts.taken);
  text("sent", counts.sent);
  text("filtered", counts.filtered);
  text("buffered", buffered);
  byId("dropped").hidden = dropped === 0;
  text("dropped", `The buffer is full: the ${dropped} oldest positions were given up.`);
  text("answer", answer || "–");
  text("place", last ? `${last.lat.toFixed(5)}, ${last.lon.toFixed(5)}` : "No position yet");
  text("accuracy", accuracyText(last?.accuracy_m));
  text("speed", speedText(last?.speed_mps));
  text("age", last ? ageText(last.fixed_at, Date.now()) : "–");
}

function text(id, value) {
  const element = byId(id);
  if (element.textContent !== String(value)) element.textContent = value;
}

function canTrack() {
  return window.isSecureContext && "geolocation" in navigator;
}

function explainContext() {
  byId("insecure").hidden = window.isSecureContext;
  byId("no-geolocation").hidden = !window.isSecureContext || "geolocation" in navigator;
}

function listen() {
  byId("start").addEventListener("click", () => tracker.start());
  byId("stop").addEventListener("click", () => tracker.stop());
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    localStorage.setItem(TOKEN_KEY, byId("token").value.trim());
    byId("token").value = "";
    connect();
  });
  byId("forget").addEventListener("click", () => {
    localStorage.removeItem(TOKEN_KEY);
    connect();
  });
  window.addEventListener("hashchange", () => { tokenFromAddress(); connect(); });
  setInterval(() => document.hidden || renderFigures(), 1000);
}

/** Read-only view for tests and the console. */
window.drover = Object.freeze({
  phone: () => ({ state: tracker.state, ...tracker.counts, buffered: tracker.buffered, answer: tracker.answer }),
});

tokenFromAddress();
explainContext();
listen();
connect();

// The device's connection: questions with ids and their answers, reconnecting.
// Before it: `phone_tracker.js`. After it: `DeviceConsumer` on the server.

import { retryDelay } from "./backoff.js";

const ANSWER_MS = 15_000;
const PING_MS = 25_000;
const REFUSED = new Set([4401, 4403]);

/** Handlers: `onState({name, retryAt, detail})`, `onHello(hello)`. */
export class DeviceSocket {
  #url;
  #token;
  #on;
  #socket = null;
  #ready = false;
  #attempt = 0;
  #welcomed = false;
  #waiting = new Map(); // id → {resolve, reject, timer}
  #timers = {};
  #closedForGood = false;
  #returned = () => this.#retryNow();

  constructor(url, token, handlers) {
    this.#url = url;
    this.#token = token;
    this.#on = handlers;
    window.addEventListener("online", this.#returned);
    document.addEventListener("visibilitychange", this.#returned);
  }

  get ready() {
    return this.#ready;
  }

  /** Connect; called again by itself after every outage. Throws on an impossible token. */
  open() {
    clearTimeout(this.#timers.retry);
    this.#on.onState({ name: this.#attempt ? "reconnecting" : "connecting", retryAt: null });
    // A browser cannot set an Authorization header on a websocket.
    const socket = new WebSocket(this.#url, ["drover.v1", `bearer.${this.#token}`]);
    this.#socket = socket;
    const current = (handler) => (event) => socket === this.#socket && handler(event);
    socket.onmessage = current(({ data }) => this.#receive(JSON.parse(data)));
    socket.onclose = current(({ code, reason }) => this.#closed(code, reason));
  }

  /** Send a message with an id; resolves with the server's ack, rejects with its error. */
  ask(message) {
    return new Promise((resolve, reject) => {
      if (!this.#ready) return reject(new Offline("not connected"));
      const timer = setTimeout(() => this.#socket?.close(), ANSWER_MS);
      this.#waiting.set(message.id, { resolve, reject, timer });
      return this.#socket.send(JSON.stringify(message));
    });
  }

  /** Close and never return: another token, or signed off. */
  close() {
    this.#closedForGood = true;
    window.removeEventListener("online", this.#returned);
    document.removeEventListener("visibilitychange", this.#returned);
    this.#socket?.close();
    this.#forget();
  }

  #receive(message) {
    if (message.type === "hello") return this.#welcome(message);
    const question = this.#waiting.get(message.id);
    if (!question) {
      if (message.type === "error") this.#on.onState({ name: "live", detail: message.detail || message.reason });
      return undefined;
    }
    this.#waiting.delete(message.id);
    clearTimeout(question.timer);
    if (message.type === "error") return question.reject(new Refused(message));
    return question.resolve(message);
  }

  #welcome(hello) {
    this.#ready = this.#welcomed = true;
    this.#attempt = 0;
    this.#on.onState({ name: "live" });
    this.#timers.ping = setInterval(() => {
      this.ask({ type: "ping", id: `ping-${Date.now()}` }).catch(() => {});
    }, PING_MS);
    this.#on.onHello(hello);
  }

  #closed(code, reason) {
    this.#forget();
    if (this.#closedForGood) return undefined;
    if (REFUSED.has(code)) return this.#on.onState({ name: "refused", detail: reason });
    const wait = retryDelay(this.#attempt);
    this.#attempt += 1;
    const name = navigator.onLine === false ? "offline" : "reconnecting";
    const detail = this.#welcomed ? "" : "No answer yet. Is the token right, and the server reachable?";
    this.#on.onState({ name, retryAt: Date.now() + wait, detail });
    this.#timers.retry = setTimeout(() => this.open(), wait);
    return undefined;
  }

  #forget() {
    this.#socket = null;
    this.#ready = false;
    clearInterval(this.#timers.ping);
    clearTimeout(this.#timers.retry);
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(new Offline("connection lost"));
    }
    this.#waiting.clear();
  }

  /** The network or the reader is back: no need to wait for the next attempt. */
  #retryNow() {
    if (document.hidden || this.#socket || this.#closedForGood || !this.#attempt) return;
    this.open();
  }
}

/** The answer never came: keep what was sent, and send it again. */
export class Offline extends Error {}

/** The server said no: `reason` and `detail` say why. */
export class Refused extends Error {
  constructor({ reason, detail }) {
    super(detail || reason);
    this.reason = reason ?? "";
  }
}

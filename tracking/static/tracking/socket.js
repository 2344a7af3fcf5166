// The live connection: protocol v1, acknowledgements, heartbeat, reconnecting.
// Before it: `MapConsumer` on the server. After it: handlers given by `live.js`.

import { retryDelay } from "./backoff.js";

const VERSION = 1;
const ACK_EVERY = 4;
const ACK_PAUSE_MS = 150;
/** The server says at least "tick" every 15 s; more than two missing ones are an outage. */
const SILENCE_MS = 35_000;
const SIGNED_OUT = 4401;
const FORBIDDEN = 4403;

/** Handlers: `onState({name, …})`, `onHello`, `onFrame`, `onRoster`, `onEvent`, `onError`. */
export class LiveSocket {
  #url;
  #on;
  #socket = null;
  #attempt = 0;
  #watch = null;
  #welcome = false;
  #unacked = 0;
  #lastN = null;
  #timers = {};

  constructor(url, handlers) {
    this.#url = url;
    this.#on = handlers;
    window.addEventListener("online", () => this.#retryNow());
    window.addEventListener("offline", () => this.#drop("offline"));
    document.addEventListener("visibilitychange", () => document.hidden || this.#retryNow());
  }

  /** Connect; called again by itself after every outage. */
  open() {
    clearTimeout(this.#timers.retry);
    const again = navigator.onLine === false ? "offline" : "reconnecting";
    this.#on.onState({ name: this.#attempt ? again : "connecting", retryAt: null });
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    const current = (handler) => (event) => socket === this.#socket && handler(event);
    socket.onmessage = current(({ data }) => this.#receive(data));
    socket.onclose = current(({ code, reason }) => this.#closed(code, reason));
    this.#listenForSilence();
  }

  /** Ask for what is in `viewport` ([w, s, e, n] or null); repeated after each hello. */
  watch(viewport, zoom) {
    this.#watch = { type: "watch", viewport, zoom };
    if (this.#welcome) this.#send(this.#watch);
  }

  #receive(text) {
    this.#listenForSilence();
    const message = JSON.parse(text);
    switch (message.type) {
      case "hello": return this.#welcomed(message);
      case "frame": this.#on.onFrame(message); return this.#acknowledge(message.n);
      case "roster": return this.#on.onRoster(message);
      case "event": return this.#on.onEvent(message);
      case "error": return this.#on.onError(message);
      default: return undefined; // "tick", and whatever later servers add
    }
  }

  #welcomed(hello) {
    if (hello.v !== VERSION) return this.#end({ name: "outdated" });
    this.#welcome = true;
    this.#attempt = 0;
    this.#unacked = 0;
    this.#lastN = null;
    this.#on.onHello(hello);
    this.#on.onState({ name: "live" });
    if (this.#watch) this.#send(this.#watch);
    return undefined;
  }

  /** Every 4th frame at once, the last one of a pause after 150 ms.
   *
   * A hidden page acknowledges each: its timers may sleep for a minute, and the
   * server gives up after 30 s. */
  #acknowledge(n) {
    this.#lastN = n;
    this.#unacked += 1;
    clearTimeout(this.#timers.ack);
    if (this.#unacked >= ACK_EVERY || document.hidden) return this.#sendAck();
    this.#timers.ack = setTimeout(() => this.#sendAck(), ACK_PAUSE_MS);
    return undefined;
  }

  #sendAck() {
    this.#unacked = 0;
    this.#send({ type: "ack", n: this.#lastN });
  }

  #send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #listenForSilence() {
    clearTimeout(this.#timers.silence);
    this.#timers.silence = setTimeout(() => this.#drop("silent"), SILENCE_MS);
  }

  /** Treat the connection as dead without waiting for a close that may never come. */
  #drop(reason) {
    const socket = this.#socket;
    if (!socket) return;
    this.#closed(0, reason);
    socket.close();
  }

  #closed(code, reason) {
    this.#socket = null;
    this.#welcome = false;
    clearTimeout(this.#timers.silence);
    clearTimeout(this.#timers.ack);
    if (code === SIGNED_OUT) return this.#end({ name: "signed-out" });
    if (code === FORBIDDEN) return this.#end({ name: "forbidden", reason });
    const wait = retryDelay(this.#attempt);
    this.#attempt += 1;
    const name = navigator.onLine === false ? "offline" : "reconnecting";
    this.#on.onState({ name, retryAt: Date.now() + wait });
    this.#timers.retry = setTimeout(() => this.open(), wait);
    return undefined;
  }

  /** Nothing to retry: the user has to act. */
  #end(state) {
    const socket = this.#socket;
    this.#socket = null;
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    this.ended = true;
    socket?.close();
    this.#on.onState(state);
  }

  #retryNow() {
    if (!this.#socket && !this.ended) this.open();
  }
}

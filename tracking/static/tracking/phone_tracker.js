// Tracking on the phone: readings → rule → queue → server, from Start to Stop.
// Before it: buttons of `phone.js`. After it: `phone_socket.js`.

import { decide, toFix } from "./phone_filter.js";
import { Refused } from "./phone_socket.js";

const BATCH = 100;
const RETRY_MS = 5000;
// Balanced: Wi-Fi and cells where they do, instead of keeping the GPS burning.
const ACCURACY = { enableHighAccuracy: false, maximumAge: 5000, timeout: 60_000 };

export class Tracker {
  #queue;
  #onChange;
  #socket = null;
  #watch = null;
  #heartbeat = 0;
  #busy = false;
  #batch = BATCH;
  #lastSent = null;
  #rules = { minDistanceM: 10, heartbeatS: 60 };
  #startPending = false;
  /** idle → tracking → stopping → stopped */
  state = "idle";
  last = null; // newest reading as a fix
  counts = countsFrom(0);
  answer = ""; // last word of the server
  problem = ""; // what the user should know or do

  constructor(queue, { onChange }) {
    this.#queue = queue;
    this.#onChange = onChange;
  }

  /** Track for the device of this token; the same token again changes nothing.
   *
   * Another one ends the journey of the token before, whose fixes and Stop wait until
   * it comes back. Returns whether the token is another one. */
  belongTo(token) {
    if (this.#queue.owns(token)) return false;
    if (this.state === "tracking") this.stop();
    this.#queue.belongTo(token);
    this.state = this.#queue.stopWaits ? "stopping" : "idle";
    this.last = this.#lastSent = null;
    this.counts = countsFrom(this.buffered);
    this.answer = this.problem = "";
    this.#startPending = false;
    this.#batch = BATCH;
    return true;
  }

  get buffered() {
    return this.#queue.size;
  }

  get dropped() {
    return this.#queue.dropped;
  }

  use(socket) {
    this.#socket = socket;
  }

  /** The server's hello: obey its distances, then send what has waited. */
  welcomed({ min_distance_m: minDistanceM, heartbeat_s: heartbeatS }) {
    if (minDistanceM > 0) this.#rules.minDistanceM = minDistanceM;
    if (heartbeatS > 0) this.#rules.heartbeatS = heartbeatS;
    this.pump();
  }

  start() {
    this.state = "tracking";
    this.#queue.stopWaits = false;
    this.problem = "";
    this.#lastSent = null;
    this.#startPending = true;
    const failed = (error) => this.#failed(error);
    const taken = (position) => this.#taken(position);
    this.#watch = navigator.geolocation.watchPosition(taken, failed, ACCURACY);
    // A phone that lies still gets no readings; the heartbeat asks for one.
    this.#heartbeat = setInterval(() => {
      navigator.geolocation.getCurrentPosition(taken, failed, { ...ACCURACY, maximumAge: 0 });
    }, this.#rules.heartbeatS * 1000);
    this.#changed();
    this.pump();
  }

  /** End the journey: the final fix goes last, and is saved before it is answered. */
  stop() {
    this.#rest();
    this.state = "stopping";
    this.#queue.stopWaits = true;
    this.#changed();
    this.pump();
  }

  #rest() {
    if (this.#watch !== null) navigator.geolocation.clearWatch(this.#watch);
    clearInterval(this.#heartbeat);
    this.#watch = null;
  }

  #taken(position) {
    if (this.state !== "tracking") return;
    const fix = toFix(position);
    this.problem = "";
    this.last = fix;
    this.counts.taken += 1;
    const { send } = decide(this.#lastSent, fix, this.#rules);
    if (send) {
      this.#lastSent = fix;
      this.#queue.push(fix);
    } else {
      this.counts.filtered += 1;
    }
    this.#changed();
    this.pump();
  }

  #failed({ code }) {
    const problems = {
      1: "Location is not allowed for this page. Allow it in the browser's site settings, then press Start.",
      2: "The phone does not know where it is. Switch location on, or go where there is a signal.",
      3: "No position within a minute. Tracking goes on trying.",
    };
    this.problem = problems[code] ?? "The location service failed.";
    if (code === 1) {
      this.#rest();
      this.state = "idle";
    }
    this.#changed();
  }

  /** Send one thing at a time until nothing waits: start, oldest fixes, then stop. */
  async pump() {
    if (this.#busy || !this.#socket?.ready) return;
    this.#busy = true;
    try {
      let more = true;
      while (more && this.#socket.ready) more = await this.#sendNext();
    } catch (error) {
      this.#refused(error);
    } finally {
      this.#busy = false;
      this.#changed();
    }
  }

  /** Returns whether there may be more to send. */
  async #sendNext() {
    if (this.#startPending && this.state === "tracking") {
      await this.#socket.ask({ type: "start", id: newId("start") });
      this.#startPending = false;
      return true;
    }
    const entries = this.#queue.oldest(this.#batch);
    if (entries.length) return this.#sendFixes(entries);
    if (this.state === "stopping") await this.#sendStop();
    return false;
  }

  async #sendFixes(entries) {
    const [first] = entries;
    const isBatch = entries.length > 1;
    const message = isBatch
      ? { type: "fixes", id: first.id, fixes: entries.map(({ fix }) => fix) }
      : { type: "fix", id: first.id, ...first.fix };
    try {
      const { result, results } = await this.#socket.ask(message);
      this.answer = (results ?? [result]).at(-1) ?? "accepted";
      this.counts.sent += entries.length;
    } catch (error) {
      if (!isVerdict(error)) throw error;
      // One bad fix must not hold the others back: find it by sending singly.
      this.#batch = 1;
      if (isBatch) return true;
      this.counts.rejected += 1;
      this.answer = `refused: ${error.message}`;
    }
    this.#queue.remove(entries.map(({ id }) => id));
    if (!this.#queue.size) this.#batch = BATCH;
    this.#changed();
    return true;
  }

  async #sendStop() {
    const fix = this.last ? { fix: this.last } : {};
    try {
      const { result } = await this.#socket.ask({ type: "stop", id: newId("stop"), ...fix });
      this.answer = result;
    } catch (error) {
      if (!isVerdict(error) || !this.last) throw error;
      this.last = null; // a journey must end even if its last fix is unusable
      return this.#sendStop();
    }
    this.state = "stopped";
    this.#queue.stopWaits = false;
    return undefined;
  }

  #refused(error) {
    if (!(error instanceof Refused)) return; // offline: the next hello sends it again
    this.answer = `refused: ${error.message}`;
    setTimeout(() => this.pump(), RETRY_MS);
  }

  #changed() {
    this.#onChange();
  }
}

/** What has waited since an earlier visit was taken too: sent never exceeds taken. */
const countsFrom = (waiting) => ({ taken: waiting, sent: 0, filtered: 0, rejected: 0 });
const newId = (kind) => `${kind}-${Date.now().toString(36)}`;
/** A judgement on the fix itself, which sending again would not change. */
const isVerdict = (error) => error instanceof Refused && error.reason.startsWith("bad_");

// The connection badge: what the page knows about being up to date, always visible.
// Before it: states of `socket.js`. After it: the reader.

/** State → tone (colour and icon by CSS) and words; times are local epoch ms. */
export function badgeText({ name, retryAt }, now = Date.now(), live = "Live") {
  const seconds = retryAt ? Math.max(0, Math.ceil((retryAt - now) / 1000)) : 0;
  const soon = seconds > 0 ? ` in ${seconds} s` : "…";
  const texts = {
    connecting: ["wait", "Connecting…"],
    live: ["good", live],
    reconnecting: ["wait", `Reconnecting${soon}`],
    offline: ["bad", "Offline"],
    "signed-out": ["bad", "Signed out"],
    forbidden: ["bad", "No access"],
    outdated: ["bad", "Reload the page"],
    refused: ["bad", "Not accepted"],
  };
  const [tone, text] = texts[name] ?? ["wait", name];
  return { tone, text };
}

/** Renders a state into the badge element and counts the seconds to the next attempt. */
export class Badge {
  #element;
  #state = { name: "connecting", retryAt: null };

  /** `data-live` of the element names the good state, "Live" unless given. */
  constructor(element) {
    this.#element = element;
    setInterval(() => this.#state.retryAt && this.#render(), 500);
  }

  show(state) {
    this.#state = state;
    this.#render();
  }

  #render() {
    const { tone, text } = badgeText(this.#state, Date.now(), this.#element.dataset.live);
    this.#element.dataset.tone = tone;
    this.#element.dataset.state = this.#state.name;
    this.#write("[data-text]", text);
    // Screen readers hear the state once, not every second of the countdown.
    this.#write("[data-said]", text.replace(/ in \d+ s$/, ""));
  }

  #write(selector, text) {
    const element = this.#element.querySelector(selector);
    if (element.textContent !== text) element.textContent = text;
  }
}

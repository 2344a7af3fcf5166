// The connection badge: what the page knows about being up to date, always visible.
// Before it: states of `socket.js`. After it: the reader.

/** State → tone (colour and icon by CSS) and words; `retryAt` is local epoch ms. */
export function badgeText({ name, retryAt }, now = Date.now()) {
  const seconds = retryAt ? Math.max(0, Math.ceil((retryAt - now) / 1000)) : 0;
  const soon = seconds > 0 ? ` in ${seconds} s` : "…";
  const texts = {
    connecting: ["wait", "Connecting…"],
    live: ["good", "Live"],
    reconnecting: ["wait", `Reconnecting${soon}`],
    offline: ["bad", "Offline"],
    "signed-out": ["bad", "Signed out"],
    forbidden: ["bad", "No access"],
    outdated: ["bad", "Reload the page"],
  };
  const [tone, text] = texts[name] ?? ["wait", name];
  return { tone, text };
}

/** Renders a state into the badge element and counts the seconds to the next attempt. */
export class Badge {
  #element;
  #state = { name: "connecting", retryAt: null };

  constructor(element) {
    this.#element = element;
    setInterval(() => this.#state.retryAt && this.#render(), 500);
  }

  show(state) {
    this.#state = state;
    this.#render();
  }

  #render() {
    const { tone, text } = badgeText(this.#state);
    this.#element.dataset.tone = tone;
    this.#element.dataset.state = this.#state.name;
    const label = this.#element.querySelector("[data-text]");
    if (label.textContent !== text) label.textContent = text;
  }
}

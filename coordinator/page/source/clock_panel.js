// The clock that timers of groups go by: the real one, or one that stands still until it is advanced.

import { get, request } from "./api.js";
import { el } from "./dom.js";
import { clock, duration } from "./words.js";

export class ClockPanel {
  constructor(act) {
    this.about = el("p", { class: "key" });
    this.ms = el("input", { type: "number", id: "advance-ms", min: 1, value: 1000 });
    const button = (text, body) => el("button", { type: "button", onclick: () => act(() => this.change(text, body())) }, text);
    this.stop = button("Stop the clock", () => ({ mode: "manual" }));
    this.run = button("Let it run", () => ({ mode: "real" }));
    this.advance = button("Advance", () => ({ advance_ms: Number(this.ms.value) }));
    this.next = button("Advance to the next timer", () => ({ advance_to: "next" }));
    this.element = el("div", {}, this.about, el("div", { class: "tools" }, this.stop, this.run, this.advance,
      el("label", { for: "advance-ms" }, "by (ms)"), this.ms, this.next));
  }

  async change(text, body) {
    const state = await request("POST", "/v1/clock", body);
    this.show(state);
    return state.fired === undefined ? `${text}: done` : `${text}: ${state.fired_count ?? 0} timers fired`;
  }

  async refresh() {
    try {
      this.show(await get("/v1/clock"));
    } catch (error) {
      this.about.textContent = error.message;
    }
  }

  show(state) {
    const isManual = state.mode === "manual";
    const next = state.next_timer_ms === null || state.next_timer_ms === undefined ? "none" : `in ${duration(Math.max(0, state.next_timer_ms - state.monotonic_ms))}`;
    this.about.textContent = `${isManual ? "The clock is stopped" : "The clock runs"}: ${clock(state.wall_ms)} UTC, ${state.timers} timers, the next ${next}`;
    this.stop.disabled = isManual;
    this.run.disabled = this.advance.disabled = this.next.disabled = !isManual;
  }
}

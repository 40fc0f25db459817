// All events as a table, the newest first: the timeline for those who read rather than look.

import { el, replace, table } from "./dom.js";
import { clock, sentence } from "./words.js";

const PAGE = 50;

export class EventTable {
  constructor(select) {
    this.select = select;
    this.page = 0;
    this.model = null;
    this.body = el("div");
    this.type = el("select", { "aria-label": "Type of the events", onchange: () => this.turn(0) });
    this.count = el("span");
    const button = (text, by) => el("button", { type: "button", onclick: () => this.turn(this.page + by) }, text);
    this.newer = button("newer", -1);
    this.older = button("older", 1);
    this.summary = el("summary", {}, "Events as a table");
    this.element = el("details", { class: "tl-table", ontoggle: () => this.refresh() }, this.summary,
      el("p", { class: "tl-steps" }, this.type, this.newer, this.older, this.count), this.body);
  }

  show(model) {
    this.model = model;
    this.summary.textContent = `Events as a table (${model.events.length.toLocaleString("en")})`;
    this.refresh();
  }

  turn(page) {
    this.page = page;
    this.refresh();
  }

  refresh() {
    if (!this.element.open || !this.model) return;
    this.listTypes();
    const events = this.model.events.filter((event) => !this.type.value || event.type === this.type.value).reverse();
    this.page = Math.max(0, Math.min(this.page, Math.ceil(events.length / PAGE) - 1));
    const start = this.page * PAGE;
    this.newer.disabled = this.page === 0;
    this.older.disabled = start + PAGE >= events.length;
    this.count.textContent = events.length ? `${start + 1} to ${Math.min(start + PAGE, events.length)} of ${events.length.toLocaleString("en")}` : "none";
    const rows = events.slice(start, start + PAGE).map((event) => [clock(event.time_ms), event.type, sentence(event, this.model.clients),
      event.offset ?? "", el("button", { type: "button", "aria-label": `Show ${event.type} ${event.offset ?? ""} in the timeline`, onclick: () => this.select(event) }, "show")]);
    replace(this.body, table("Events", ["time (UTC)", "type", "what happened", "offset", "in the timeline"], rows, [3]));
  }

  listTypes() {
    const types = [...new Set(this.model.events.map((event) => event.type))].sort();
    if (this.type.options.length === types.length + 1) return;
    const chosen = this.type.value;
    replace(this.type, el("option", { value: "" }, "all types"), types.map((type) => el("option", { value: type }, type)));
    this.type.value = chosen;
  }
}

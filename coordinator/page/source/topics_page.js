// All topics with their partitions, offsets and sizes.

import { get, query, repeat } from "./api.js";
import { el, replace, table } from "./dom.js";
import { refill } from "./refill.js";
import { bytes, count } from "./words.js";

const PAGE = 100;
const EVERY_MS = 5000;

export class TopicsPage {
  constructor(root) {
    this.after = null;
    this.said = el("p", { role: "status", class: "key" }, "…");
    this.more = el("button", { type: "button", onclick: () => this.turn() }, "next page");
    this.body = el("div");
    replace(root, el("h1", {}, "Topics"), el("div", { class: "tools" }, this.more, this.said), this.body);
    repeat(() => this.refresh(), EVERY_MS);
  }

  turn() {
    this.after = this.next;
    this.refresh();
  }

  async refresh() {
    try {
      this.show(await get(query("/v1/topics", { limit: PAGE, after: this.after })));
    } catch (error) {
      this.said.textContent = `${error.message}; trying again`;
    }
  }

  show({ topics, next = null }) {
    this.next = next;
    this.more.textContent = next || !this.after ? "next page" : "first page";
    this.more.disabled = !next && !this.after;
    this.said.textContent = topics.length ? `${count(topics.length, "topic")}${next ? ", and more" : ""}.` : "No topic.";
    const rows = topics.map((topic) => {
      const totals = totalsOf(topic);
      return [el("a", { href: query("/", { topic: topic.name }) }, topic.name), topic.partitions.length, totals.offsets, totals.size,
        totals.offline ? el("span", { class: "bad" }, `${totals.offline} offline`) : "", el("code", {}, topic.id)];
    });
    refill(this.body, rows.length ? table("All topics", ["topic", "partitions", "offsets in the logs", "size", "trouble", "id"], rows, [1, 2, 3]) : null);
  }
}

export function totalsOf(topic) {
  const online = topic.partitions.filter((each) => each.end_offset !== null);
  const sum = (value) => online.reduce((total, each) => total + (value(each) ?? 0), 0);
  const isHere = !topic.elsewhere;
  return { offsets: isHere ? sum((each) => each.end_offset - each.start_offset).toLocaleString("en") : "unknown", offline: isHere ? topic.partitions.length - online.length : 0,
    size: isHere ? bytes(sum((each) => each.size_bytes)) : "unknown" };
}

// All topics with their partitions and the number of offsets in their logs.

import { get, query, repeat } from "./api.js";
import { el, replace, table } from "./dom.js";
import { refill } from "./refill.js";
import { top } from "./top.js";
import { count } from "./words.js";

const PAGE = 100;
const EVERY_MS = 5000;

export class TopicsPage {
  constructor(root) {
    this.after = null;
    this.said = el("p", { role: "status", class: "key alert" });
    this.more = el("button", { type: "button", onclick: () => this.turn() }, "next page");
    this.body = el("div");
    replace(root, top(), el("h1", {}, "Topics"), el("div", { class: "tools" }, this.more), this.said, this.body);
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
      const online = topic.partitions.filter((each) => each.end_offset !== null);
      const offsets = online.reduce((sum, each) => sum + each.end_offset - each.start_offset, 0);
      const offline = topic.partitions.length - online.length;
      return [topic.name, el("code", {}, topic.id), topic.partitions.length, offsets.toLocaleString("en"), offline ? `${offline} offline` : ""];
    });
    refill(this.body, rows.length ? table("All topics", ["topic", "id", "partitions", "offsets in the logs", "trouble"], rows, [2, 3]) : null);
  }
}

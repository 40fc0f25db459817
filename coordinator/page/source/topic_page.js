// One topic: its partitions, who reads it, and a look at its records.

import { get, groupPage, query, repeat, topicPath } from "./api.js";
import { el, replace, table } from "./dom.js";
import { lagText } from "./groups_page.js";
import { stateClass } from "./overview_page.js";
import { Records } from "./records.js";
import { refill } from "./refill.js";
import { totalsOf } from "./topics_page.js";
import { bytes, count } from "./words.js";

const EVERY_MS = 5000;
const READERS = 100;
const PARTITIONS_SHOWN = 500;

export class TopicPage {
  constructor(root, topic, asked) {
    this.topic = topic;
    this.about = el("p", { class: "about" }, "…");
    this.partitions = el("div");
    this.readers = el("div");
    this.records = new Records(topic, asked);
    replace(root, el("p", { class: "up" }, el("a", { href: "/?view=topics" }, "Topics")), el("h1", {}, topic), this.about,
      el("div", { class: "halves" },
        el("section", { "aria-label": "Partitions" }, el("h2", {}, "Partitions"), this.partitions),
        el("section", { "aria-label": "Readers" }, el("h2", {}, "Who reads it"), this.readers)),
      el("section", { "aria-label": "Records" }, el("h2", {}, "Records"), this.records.element));
    repeat(() => this.refresh(), EVERY_MS);
  }

  async refresh() {
    try {
      this.show(await get(topicPath(this.topic)));
    } catch (error) {
      this.about.textContent = error.status === 404 ? "There is no such topic here." : error.message;
    }
    try {
      this.showReaders(await get(query("/v1/groups", { topic: this.topic, limit: READERS })));
    } catch (error) {
      refill(this.readers, el("p", { class: "nothing" }, `Unknown: ${error.message}`));
    }
  }

  show(topic) {
    const totals = totalsOf(topic);
    this.about.textContent = `${count(topic.partitions.length, "partition")}, ${totals.offsets} offsets, ${totals.size}`;
    this.records.showPartitions(topic.partitions.length);
    const known = (value) => value?.toLocaleString("en") ?? "unknown";
    refill(this.partitions, table("Partitions of the topic", ["partition", "first", "end", "stable", "size", "records"], topic.partitions.slice(0, PARTITIONS_SHOWN).map((each) => [
      each.partition, known(each.start_offset), known(each.end_offset), known(each.stable_offset), each.end_offset === null && !topic.elsewhere ? "offline" : bytes(each.size_bytes),
      el("button", { type: "button", "aria-label": `Show records of partition ${each.partition}`, onclick: () => this.records.open(each.partition) }, "show"),
    ]), [0, 1, 2, 3, 4]));
  }

  showReaders({ groups, next = null }) {
    refill(this.readers, groups.length ? table("Groups with offsets of the topic", ["group", "state", "lag here", "members"], groups.map((each) => [
      el("a", { href: groupPage(each.group_id) }, each.group_id || "(empty name)"), el("span", { class: stateClass(each.state) }, each.state), lagText(each), each.member_count,
    ]), [2, 3]) : el("p", { class: "nothing" }, "No group has committed an offset of it."), next ? el("p", { class: "note" }, `The first ${groups.length}.`) : null);
  }
}

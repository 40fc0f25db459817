// The selected record: what it says, where it is in the log, and the group as it was then.

import { append, el, replace, table } from "./dom.js";
import { describe, groupAt } from "./model.js";
import { clock, errorName, member, sentence } from "./words.js";

const SHOWN_MAX = 12;
const SETTLED_MS = 120; // whoever scrubs passes many records
const HIDDEN = new Set(["type", "group", "shard", "offset", "state_offset", "state_end_offset", "time_ms", "version", "topics"]);

export class Detail {
  // `inspect(event)`: more about an event, as a promise of an element or null. `step(direction)` selects another record.
  // `linkTo(event, time)`: the address of the moment, or null.
  constructor(inspect, step, linkTo) {
    this.inspect = inspect;
    this.linkTo = linkTo;
    this.step = step;
    this.element = el("section", { class: "tl-detail", tabindex: -1, "aria-label": "Selected record" });
    this.clear();
  }

  clear() {
    replace(this.element, el("p", { class: "tl-none" }, "Select a record in the timeline to see it, its log offset, and the group as it was then."));
  }

  async show(model, row, item) {
    const event = item.event ?? {};
    const time = item.time ?? Math.max(item.from, model.first);
    const button = (text, direction) => el("button", { type: "button", onclick: () => this.step(direction) }, text);
    const link = this.linkTo?.(event, time);
    this.element.scrollTop = 0;
    replace(this.element,
      el("h3", {}, row ? describe(model, row, item) : sentence(event, model.clients)),
      el("p", { class: "tl-steps" }, button("← earlier in this row", -1), button("later in this row →", 1), link ? el("a", { href: link }, "Link to this moment") : null),
      el("dl", {}, this.facts(model, item, event, time).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
      this.partitions(event), this.then(model, time));
    const token = (this.token = {});
    if (!event.type || !this.inspect) return;
    await new Promise((resolve) => setTimeout(resolve, SETTLED_MS));
    const more = this.token === token ? await this.inspect(event) : null;
    if (more && this.token === token) append(this.element, [more]);
  }

  facts(model, item, event, time) {
    const facts = [["time", `${clock(time)} UTC`]];
    if (item.to !== undefined) facts.push(["until", item.to === null ? "it goes on" : `${clock(item.to)} UTC`]);
    if (event.type && event.type !== "Owned") facts.push(["record", event.type]);
    if (typeof event.offset === "number") facts.push(["log offset", `${event.offset} in the event log of shard ${event.shard ?? "?"}`]);
    if (event.state_offset >= 0) facts.push(["state offset", `${event.state_offset}: decided on the group's records before it`]);
    for (const [key, value] of Object.entries(event)) {
      if (!HIDDEN.has(key) && value !== null && value !== "") facts.push([key.replaceAll("_", " "), shown(model, key, value)]);
    }
    return facts;
  }

  partitions(event) {
    const rows = (event.topics ?? []).flatMap((topic) => topic.partitions.map((each) => [topic.topic_name || topic.topic_id, each]));
    if (!rows.length) return null;
    const isCommit = event.type === "CommitDecided";
    const cells = rows.slice(0, SHOWN_MAX).map(([topic, each]) =>
      (isCommit ? [`${topic}-${each.partition}`, each.committed_offset, errorName(each.error_code)] : [`${topic}-${each}`]));
    const rest = rows.length > SHOWN_MAX ? el("p", {}, `and ${rows.length - SHOWN_MAX} more`) : null;
    return el("div", {}, table("Partitions of this record", isCommit ? ["partition", "committed offset", "outcome"] : ["partition"], cells, [1]), rest);
  }

  then(model, time) {
    const group = groupAt(model, time);
    const owners = [...group.owners].sort((a, b) => b[1] - a[1]);
    return el("details", { class: "tl-then" },
      el("summary", {}, `By then: epoch ${group.epoch ?? "unknown"}, ${group.members.length} members, `
        + `${group.partitions} partitions owned${group.rebalancing ? ", rebalancing" : ""}`),
      table("Owners at that time", ["member", "partitions"], owners.map(([id, count]) => [member(id, model.clients), count]), [1]));
  }
}

function shown(model, key, value) {
  if (key.endsWith("member_id")) return member(value, model.clients);
  if (key === "waited_for") return waits(model, value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function waits(model, waited) {
  const longest = waited.filter((each) => each.waited_ms).sort((a, b) => b.waited_ms - a.waited_ms);
  if (!longest.length) return "no member";
  const named = longest.slice(0, 5).map((each) => `${member(each.member_id, model.clients)} (${each.waited_ms} ms)`);
  return `${named.join("; ")}${longest.length > 5 ? `; and ${longest.length - 5} more` : ""}`;
}

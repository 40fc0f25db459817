// One group: its state, timeline, lag, members, offsets, and what control offers.

import { get, groupPath, query, repeat } from "./api.js";
import { ControlPanel } from "./control_panel.js";
import { el, replace, table } from "./dom.js";
import { GroupEvents } from "./group_events.js";
import { LagChart } from "./lag_chart.js";
import { buildModel } from "./model.js";
import { refill } from "./refill.js";
import { Timeline } from "./timeline.js";
import { top } from "./top.js";
import { hostName, shortId } from "./words.js";

const EVERY_MS = 2000;
const OFFSETS_SHOWN = 200;

export class GroupPage {
  constructor(root, group) {
    this.group = group;
    this.view = null;
    this.events = [];
    this.about = el("p", { class: "about" });
    this.said = el("p", { role: "status", class: "key alert" });
    this.members = el("div");
    this.offsets = el("div");
    const timeline = el("div", { class: "timeline" });
    const lag = el("div");
    this.control = new ControlPanel(group, () => this.refresh());
    replace(root, top(), el("h1", {}, group), this.about, this.said,
      el("section", { "aria-label": "Timeline" }, el("h2", {}, "Timeline"), timeline),
      el("section", { "aria-label": "Lag" }, el("h2", {}, "Lag over time"), lag),
      el("section", { "aria-label": "Control" }, el("h2", {}, "Control"), this.control.element),
      el("section", { "aria-label": "Members" }, el("h2", {}, "Members"), this.members),
      el("section", { "aria-label": "Offsets" }, el("h2", {}, "Offsets"), el("details", {}, el("summary", {}, "Committed offsets and their lag"), this.offsets)));
    this.timeline = new Timeline(timeline, { isLive: true, inspect: (event) => this.inspect(event) });
    timeline.timeline = this.timeline;
    this.lag = new LagChart(lag);
    this.start();
  }

  async start() {
    await this.refresh();
    repeat(() => this.refresh(), EVERY_MS);
    const events = new GroupEvents(this.group, (found) => this.showEvents(found), (text) => (this.said.textContent = text));
    try {
      await events.start();
    } catch (error) {
      this.said.textContent = `No events: ${error.message}`;
    }
  }

  showEvents(events) {
    this.events = events;
    this.timeline.show(buildModel(events, { members: (this.view?.members ?? []).map(known) }));
  }

  async refresh() {
    try {
      this.view = await get(groupPath(this.group));
      this.show(this.view);
    } catch (error) {
      this.about.textContent = error.status === 404 ? "There is no such group now." : error.message;
    }
  }

  show(view) {
    const lag = view.lag?.toLocaleString("en") ?? (view.offset_count ? "unknown" : "none, because nothing is committed");
    this.about.textContent = `${view.kind} group, ${view.state}, epoch ${view.generation}, ${view.member_count} members, lag ${lag}`;
    this.lag.add(Date.now(), view.lag ?? null, view.offset_count);
    this.control.show(view);
    const members = view.members ?? [];
    refill(this.members, members.length ? table("Members of the group", ["client", "host", "member", "instance", "partitions or tasks", "actions"], members.map((each) => [
      each.client_id, hostName(each.client_host), el("code", { title: each.member_id }, shortId(each.member_id)), each.group_instance_id ?? "",
      assigned(each).length, this.control.memberButtons(each),
    ]), [4]) : el("p", { class: "nothing" }, "None."));
    const committed = view.committed ?? [];
    const rows = committed.slice(0, OFFSETS_SHOWN).map((each) => [`${each.topic}-${each.partition}`, each.offset, each.lag?.toLocaleString("en") ?? ""]);
    refill(this.offsets, rows.length ? table("Committed offsets", ["partition", "committed", "lag"], rows, [1, 2]) : el("p", { class: "nothing" }, "None."),
      committed.length > rows.length ? el("p", { class: "note" }, `Showing ${rows.length} of ${committed.length}.`) : null);
  }

  // The group as the log has it before the record was decided.
  async inspect(event) {
    if (!(event.state_offset >= 0)) return null;
    try {
      const view = await get(query(groupPath(this.group), { at: event.state_offset }));
      return el("div", { class: "at-offset" }, el("h3", {}, `The group at offset ${event.state_offset} of its log`),
        el("p", {}, `${view.state}, epoch ${view.generation}, ${view.member_count} members, ${view.offset_count} offsets`),
        view.at.is_complete ? null : el("p", { class: "note" },
          `Compaction has removed records before offset ${view.at.compacted_before}; what was changed later may be missing.`),
        table("Members at that offset", ["client", "member", "partitions"],
          (view.members ?? []).map((each) => [each.client_id, shortId(each.member_id), assigned(each).length]), [2]));
    } catch (error) {
      return el("p", { class: "key" }, `The group at offset ${event.state_offset}: ${error.message}`);
    }
  }
}

// The partitions of a member of a classic or consumer group, or the active tasks of one of a streams group.
function assigned(member) {
  const held = member.assignment ?? member.assigned?.active ?? member.assigned ?? {};
  return Object.entries(held).flatMap(([topic, partitions]) =>
    (Array.isArray(partitions) ? partitions : Object.keys(partitions)).map((partition) => ({ topic, partition: Number(partition) })));
}

const known = (member) => ({ member_id: member.member_id, client_id: member.client_id, client_host: member.client_host,
  assignment: member.assigned?.active ? [] : assigned(member) });

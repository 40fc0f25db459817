// One group: its state, timeline, lag, members, offsets, and what control offers.

import { get, groupPage, groupPath, query, repeat } from "./api.js";
import { ControlPanel } from "./control_panel.js";
import { el, replace, table } from "./dom.js";
import { GroupEvents } from "./group_events.js";
import { lagText } from "./groups_page.js";
import { LagChart } from "./lag_chart.js";
import { buildModel } from "./model.js";
import { stateClass, unknownList } from "./overview_page.js";
import { refill } from "./refill.js";
import { heldRecords, inFlight, sharePartitions } from "./share_partitions.js";
import { Timeline } from "./timeline.js";
import { hostName, shortId } from "./words.js";

const EVERY_MS = 2000;
const ANSWER_EVERY_MS = 15_000;
const ALARMING = 0.05; // of the time
const OFFSETS_SHOWN = 200;

export class GroupPage {
  // `moment`: what is selected first, from a link.
  constructor(root, group, moment) {
    this.group = group;
    this.moment = moment;
    this.view = null;
    this.events = [];
    this.about = el("p", { class: "about" }, "…");
    this.why = el("p", { class: "verdict" }, "…");
    this.said = el("p", { role: "status", class: "key" }, " ");
    this.unknown = el("div");
    this.members = el("div");
    this.offsets = el("div");
    this.offsetsTitle = el("h2", {}, "Committed offsets");
    this.lagTitle = el("h2", {}, "Lag over time");
    this.held = el("div");
    this.heldSection = el("section", { "aria-label": "Held records", hidden: true }, el("h2", {}, "Records that members hold"), this.held);
    const timeline = el("div", { class: "timeline" });
    const lag = el("div");
    this.control = new ControlPanel(group, () => this.refresh());
    replace(root, el("p", { class: "up" }, el("a", { href: "/?view=groups" }, "Groups"), " · ", el("a", { href: query("/", { view: "events", by: "group", search: group }) }, "its events")),
      el("div", { class: "title" }, el("h1", {}, group), this.control.opener), this.about, this.why, this.unknown,
      el("section", { "aria-label": "Timeline of the group" }, el("div", { class: "title" }, el("h2", {}, "Timeline"), this.said), timeline),
      el("div", { class: "halves" },
        el("section", { "aria-label": "Members" }, el("h2", {}, "Members"), this.members,
          this.lagTitle, lag),
        el("section", { "aria-label": "Offsets" }, this.offsetsTitle, this.offsets)), this.heldSection, this.control.element);
    const linkTo = (event, time) => groupPage(group, typeof event.offset === "number" ? event.offset : `t${Math.round(time)}`);
    this.timeline = new Timeline(timeline, { isLive: true, inspect: (event) => this.inspect(event), linkTo });
    timeline.timeline = this.timeline;
    this.lag = new LagChart(lag);
    this.start();
  }

  async start() {
    await this.refresh();
    repeat(() => this.refresh(), EVERY_MS);
    repeat(() => this.answer(), ANSWER_EVERY_MS);
    const events = new GroupEvents(this.group, (found) => this.showEvents(found), (text) => (this.said.textContent = text));
    try {
      await events.start();
    } catch (error) {
      this.said.textContent = `No events: ${error.message}`;
    }
    if (this.moment !== null) this.timeline.selectMoment(this.moment);
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

  // Why the group rebalanced in the last hour, from the event log.
  async answer() {
    try {
      const { sentence, rebalancing_share: share, deliveries = [] } = await get(groupPath(this.group, "/why"));
      const isArchived = deliveries.some((each) => each.type === "RecordsArchived");
      this.why.textContent = sentence;
      this.why.className = `verdict ${share > ALARMING || isArchived ? "alarmed" : share > 0 || deliveries.length ? "warned" : "fine"}`;
    } catch (error) {
      this.why.textContent = error.status === 404 ? "Nothing is known about its rebalances." : `Why it rebalances is unknown: ${error.message}`;
    }
  }

  show(view) {
    const shared = view.share_partitions;
    const lag = shared ? view.lag?.toLocaleString("en") ?? "unknown" : lagText(view) === "none" ? "none, because nothing is committed" : lagText(view);
    refill(this.about, el("span", { class: stateClass(view.state) }, view.state), ` ${view.kind} group, epoch ${view.generation ?? "unknown"}, ${view.member_count} members, lag ${lag}`);
    refill(this.unknown, unknownList(view.unknown));
    this.lag.add(Date.now(), view.lag ?? null, view.offset_count, shared ? { records: inFlight(shared) } : null);
    this.control.show(view);
    const members = view.members ?? [];
    refill(this.members, members.length ? table("Members of the group", ["client", "host", "member", "instance", "partitions or tasks", "actions"], members.map((each) => [
      each.client_id, hostName(each.client_host), el("code", { title: each.member_id }, shortId(each.member_id)), each.group_instance_id ?? "",
      assigned(each).length, this.control.memberButtons(each),
    ]), [4]) : el("p", { class: "nothing" }, "None."));
    if (shared) this.showShared(shared);
    else this.showCommitted(view.committed ?? []);
  }

  showShared(partitions) {
    this.offsetsTitle.textContent = "Share partitions";
    this.lagTitle.textContent = "Lag and records in flight over time";
    this.heldSection.hidden = false;
    refill(this.offsets, ...sharePartitions(partitions));
    refill(this.held, ...heldRecords(partitions));
  }

  showCommitted(committed) {
    const rows = committed.slice(0, OFFSETS_SHOWN).map((each) => [el("a", { href: query("/", { topic: each.topic, partition: each.partition, offset: each.offset }) }, `${each.topic}-${each.partition}`), each.offset, each.end_offset ?? "unknown", each.lag?.toLocaleString("en") ?? "unknown"]);
    refill(this.offsets, rows.length ? table("Committed offsets", ["partition", "committed", "end", "lag"], rows, [1, 2, 3]) : el("p", { class: "nothing" }, "None."),
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

// What a timeline shows, from the events of one group (docs/events.md) in the order of their log.
//
// A row has bars (from, to; `to` null: still so at the end) and marks (time). Each leads back to its event. State follows the
// order of the log and never the clock, which may go back.

import { sentence } from "./words.js";

const NOTICES = new Set(["EventLogOpened", "EventLogClosed", "GroupConverted", "GroupResynced", "AssignmentInvalid", "AssignmentFailed"]);

// `ownership`: who owned which partition, where a log of state says it better than the events do.
// `members`: members whose join is not among the events. `clients`: those that get the first colours, in order.
export function buildModel(events, { ownership = null, members = [], clients = [] } = {}) {
  const builder = new Builder(clients, ownership === null);
  for (const each of members) builder.learn(each);
  for (const event of withoutUndone(events)) builder.take(event);
  for (const each of members) builder.wasAlwaysThere(each);
  if (ownership !== null) builder.own(ownership);
  return builder.model();
}

// The events without those that a crash undid.
export function withoutUndone(events) {
  let kept = [];
  for (const event of events) {
    if (event.type === "EventLogOpened" && event.undone_from_offset >= 0) {
      kept = kept.filter((each) => !(each.offset >= event.undone_from_offset));
    }
    kept.push(event);
  }
  return kept;
}

class Builder {
  constructor(ranked, ownsByEvents) {
    this.ownsByEvents = ownsByEvents;
    this.events = [];
    this.clients = new Map(); // member id -> {client_id, host}
    this.places = new Map(); // client -> place of its colour
    this.epochs = [];
    this.rebalances = [];
    this.notices = [];
    this.faults = [];
    this.members = new Map(); // member id -> row
    this.partitions = new Map(); // topic and number -> row
    this.owned = new Map(); // member id -> the partitions of its last assignment
    this.holders = new Map(); // instance id -> member id
    this.before = null; // the time of the event before
    this.first = Infinity;
    this.last = -Infinity;
    for (const each of ranked) this.place(each);
  }

  learn({ member_id, client_id, client_host }) {
    this.clients.set(member_id, { client_id: client_id ?? "", host: client_host ?? "" });
    this.place(this.clients.get(member_id));
  }

  place({ client_id, host }) {
    const key = `${client_id}\n${host}`;
    if (!this.places.has(key)) this.places.set(key, { place: this.places.size, client_id, host });
    return this.places.get(key).place;
  }

  colour(memberId) {
    const client = this.clients.get(memberId);
    return { place: this.place(client ?? { client_id: memberId.replace(/-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, ""), host: "" }) };
  }

  label(memberId) {
    return this.clients.get(memberId)?.client_id || memberId;
  }

  take(event) {
    this.events.push(event);
    if (event.time_ms > 0) {
      this.first = Math.min(this.first, event.time_ms);
      this.last = Math.max(this.last, event.time_ms);
    }
    this[event.type]?.(event);
    this.before = event.time_ms;
    if (NOTICES.has(event.type)) this.notices.push({ time: event.time_ms, glyph: "notice", event });
  }

  EventLogOpened(event) {
    for (const each of this.rebalances) if (each.to === null) each.to = Math.max(each.from, this.before ?? event.time_ms);
  }

  RebalanceStarted(event) {
    this.epoch(event, event.time_ms);
    this.rebalances.push(this.rebalance(event, event.time_ms));
  }

  RebalanceCompleted(event) {
    let open = this.rebalances.filter((each) => each.to === null && each.epoch <= event.epoch);
    if (!open.length && event.duration_ms >= 0 && !this.rebalances.some((each) => each.epoch === event.epoch)) {
      this.epoch(event, event.time_ms - event.duration_ms);
      open = [this.rebalance(event, event.time_ms - event.duration_ms)];
      this.rebalances.push(...open);
    }
    for (const each of open) {
      each.to = Math.max(each.from, event.time_ms);
      each.end = event;
    }
  }

  RebalanceOvertaken(event) {
    this.RebalanceCompleted(event);
  }

  rebalance(event, from) {
    const who = event.member_id ? `${this.label(event.member_id)}: ` : "";
    return { from, to: null, epoch: event.epoch, colour: { cause: event.kind ?? "unknown" }, label: `${who}${event.cause || "unknown cause"}`, event };
  }

  epoch(event, from) {
    const last = this.epochs.at(-1);
    if (last && last.to === null) last.to = Math.max(from, last.from);
    this.epochs.push({ from, to: null, label: String(event.epoch), colour: { band: this.epochs.length % 2 }, event });
  }

  member(id) {
    if (!this.members.has(id)) this.members.set(id, { key: `m ${id}`, section: "members", name: id, bars: [], marks: [] });
    return this.members.get(id);
  }

  MemberJoined(event) {
    this.learn(event);
    const instance = event.group_instance_id;
    const holder = instance && this.holders.get(instance);
    if (holder && holder !== event.member_id) this.end({ ...event, member_id: holder }, "replaced", event);
    if (instance) this.holders.set(instance, event.member_id);
    const row = this.member(event.member_id);
    if (row.bars.at(-1)?.to !== null) row.bars.push(this.stay(event.member_id, event.time_ms, event));
    row.marks.push({ time: event.time_ms, glyph: "joined", event });
  }

  stay(id, from, event) {
    return { from, to: null, colour: this.colour(id), label: this.label(id), event, member: id };
  }

  MemberLeft(event) {
    this.end(event, "left", event);
  }

  MemberExpired(event) {
    this.end(event, "expired", event);
  }

  end({ member_id: id, time_ms: time }, glyph, event) {
    const row = this.member(id);
    if (!row.bars.length && this.clients.has(id)) row.bars.push(this.stay(id, -Infinity, event));
    const open = row.bars.at(-1);
    if (open && open.to === null) {
      open.to = Math.max(open.from, time);
      open.end = event;
    }
    row.marks.push({ time, glyph, event });
    this.release(id, new Set(), time);
  }

  // A member of the group whose join is older than the first event.
  wasAlwaysThere({ member_id: id, assignment = [], from_ms = -Infinity, to_ms = null }) {
    const row = this.member(id);
    if (!row.bars.length) row.bars.push({ ...this.stay(id, from_ms, null), to: to_ms });
    if (this.ownsByEvents && !this.owned.has(id)) this.receive(id, assignment, -Infinity, null);
  }

  MemberFenced(event) {
    this.member(event.member_id).marks.push({ time: event.time_ms, glyph: "fenced", event });
  }

  AssignmentDelivered(event) {
    if (!this.ownsByEvents) return;
    const given = (event.topics ?? []).flatMap((topic) => topic.partitions.map((partition) => ({ topic: topic.topic_name || topic.topic_id, partition })));
    this.receive(event.member_id, given, event.time_ms, event);
  }

  receive(id, given, time, event) {
    const rows = given.map(({ topic, partition }) => this.partition(topic, partition));
    this.release(id, new Set(rows), time);
    this.owned.set(id, new Set(rows));
    for (const row of rows) {
      const current = row.bars.at(-1);
      if (current?.to === null && current.member === id) continue;
      if (current?.to === null) this.close(row, time, event);
      row.bars.push({ from: time, to: null, colour: this.colour(id), label: this.label(id), event, member: id });
    }
  }

  release(id, kept, time) {
    for (const row of this.owned.get(id) ?? []) {
      const current = row.bars.at(-1);
      if (!kept.has(row) && current?.member === id && current.to === null) this.close(row, time);
    }
    this.owned.set(id, kept);
  }

  close(row, time) {
    const current = row.bars.at(-1);
    current.to = Math.max(current.from, time);
  }

  partition(topic, partition) {
    const key = `p ${topic} ${partition}`;
    if (!this.partitions.has(key)) {
      this.partitions.set(key, { key, section: "partitions", name: `${topic}-${partition}`, topic, partition, bars: [], marks: [] });
    }
    return this.partitions.get(key);
  }

  CommitDecided(event) {
    for (const topic of event.topics ?? []) {
      for (const each of topic.partitions) {
        const row = this.partition(topic.topic_name || topic.topic_id, each.partition);
        row.marks.push({ time: event.time_ms, glyph: commitGlyph(event, each), event, partition: each });
      }
    }
  }

  FaultActed(event) {
    const mark = { time: event.time_ms, glyph: "fault", event };
    this.faults.push(mark);
    if (event.member_id && this.members.has(event.member_id)) this.member(event.member_id).marks.push(mark);
  }

  own(ownership) {
    for (const each of ownership) {
      const row = this.partition(each.topic, each.partition);
      const event = { type: "Owned", ...each, time_ms: each.from_ms };
      row.bars.push({ from: each.from_ms, to: each.to_ms, colour: this.colour(each.member_id), label: this.label(each.member_id), event, member: each.member_id });
      this.first = Math.min(this.first, each.from_ms);
      this.last = Math.max(this.last, each.from_ms, each.to_ms ?? -Infinity);
    }
    for (const row of this.partitions.values()) {
      row.bars.sort((a, b) => a.from - b.from);
      halve(row.bars);
    }
  }

  model() {
    const rows = [
      { key: "epochs", section: "top", name: "epochs", bars: this.epochs, marks: [] },
      { key: "rebalances", section: "top", name: "rebalances", bars: this.rebalances, marks: [] },
      { key: "faults", section: "top", name: "faults, server", bars: [], marks: [...this.faults, ...this.notices] },
      ...[...this.partitions.values()].sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition)),
      ...[...this.members.values()].sort((a, b) => this.rank(a) - this.rank(b)),
    ];
    for (const row of rows) row.marks.sort((a, b) => a.time - b.time);
    const isEmpty = this.first > this.last;
    return { rows, events: this.events, clients: this.clients, legend: [...this.places.values()],
      first: isEmpty ? 0 : this.first, last: isEmpty ? 1 : Math.max(this.last, this.first + 1), isEmpty };
  }

  rank(row) {
    return this.colour(row.name).place;
  }
}

// Accepted, refused, or accepted although its sender did not own the partition. `truth`: the report's verdict.
function commitGlyph(event, partition) {
  if (partition.error_code || event.error_code) return "refused";
  const unowned = event.group_kind !== undefined && event.group_kind !== "classic" && partition.assignment_epoch === -1;
  return event.truth || unowned ? "unowned" : "accepted";
}

// Two owners at the same time share the height of the row.
function halve(bars) {
  let reach = -Infinity;
  let last = null;
  for (const bar of bars) {
    if (last && bar.from < reach) {
      last.half ??= "upper";
      bar.half = last.half === "lower" ? "upper" : "lower";
    }
    if ((bar.to ?? Infinity) > reach) {
      reach = bar.to ?? Infinity;
      last = bar;
    }
  }
}

// The group at a moment, as the events show it: {epoch, members, owners: client -> number of partitions}.
export function groupAt(model, time) {
  const there = (bar) => bar.from <= time && (bar.to === null || bar.to > time);
  const members = model.rows.filter((row) => row.section === "members" && row.bars.some(there)).map((row) => row.name);
  const owners = new Map();
  let partitions = 0;
  for (const row of model.rows.filter((each) => each.section === "partitions")) {
    const bar = row.bars.find(there);
    if (bar) {
      partitions += 1;
      owners.set(bar.member, (owners.get(bar.member) ?? 0) + 1);
    }
  }
  const epoch = model.rows[0].bars.filter(there).at(-1)?.label ?? null;
  const rebalancing = model.rows[1].bars.some(there);
  return { epoch, members, owners, partitions, rebalancing };
}

// A bar or a mark in words.
export function describe(model, row, item) {
  if (item.member && row.section === "partitions") {
    return `${row.name} owned by ${item.label}`;
  }
  if (row.key === "rebalances" && item.end) return `${sentence(item.event, model.clients)}; ${sentence(item.end, model.clients)}`;
  if (row.key === "epochs") return `epoch ${item.label} began: ${item.event.cause || "unknown cause"}`;
  if (!item.event) return `${item.label} is a member since before the first event`;
  return `${row.section === "partitions" ? `${row.name}: ` : ""}${sentence(item.event, model.clients)}`;
}

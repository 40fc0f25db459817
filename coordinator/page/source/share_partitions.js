// The partitions of a share group: where each starts, what is in flight, and which member holds which records.

import { query } from "./api.js";
import { el, table } from "./dom.js";
import { ago, count, shortId } from "./words.js";

const SHOWN = 200;
const HELD_SHOWN = 100;

const number = (value) => value?.toLocaleString("en") ?? "unknown";

export function sharePartitions(partitions) {
  if (!partitions.length) return [el("p", { class: "nothing" }, "None.")];
  const rows = partitions.slice(0, SHOWN).map((each) => [place(each), number(each.start_offset), number(each.lag), unread(each.in_flight), unread(each.acquired), unread(each.available), unread(each.archiving), deliveries(each)]);
  return [
    table("Share partitions", ["partition", "start", "lag", "in flight", "held", "given back", "dead letters on their way", "deliveries"], rows, [1, 2, 3, 4, 5, 6]),
    partitions.length > rows.length ? el("p", { class: "note" }, `Showing ${rows.length} of ${partitions.length}.`) : null,
  ];
}

// Who holds what, and since when.
export function heldRecords(partitions) {
  const held = partitions.flatMap((partition) => partition.held.map((each) => ({ partition, ...each })));
  if (!held.length) return [el("p", { class: "nothing" }, "No member holds records.")];
  held.sort((a, b) => a.since_ms - b.since_ms);
  const rows = held.slice(0, HELD_SHOWN).map((each) => [
    place(each.partition), offsets(each), each.client_id ?? "unknown", el("code", { title: each.member_id }, shortId(each.member_id)),
    each.delivery_count, ago(each.since_ms), new Date(each.lock_ends_ms).toISOString().slice(11, 19),
  ]);
  return [
    table("Records that members hold", ["partition", "offsets", "client", "member", "delivered", "since", "lock ends (UTC)"], rows, [4]),
    held.length > rows.length ? el("p", { class: "note" }, `Showing ${rows.length} of ${held.length}, the longest held.`) : null,
  ];
}

// Records in flight in all partitions that members read; null if they read none.
export function inFlight(partitions) {
  const known = (partitions ?? []).filter((each) => each.in_flight !== null);
  return known.length ? known.reduce((sum, each) => sum + each.in_flight, 0) : null;
}

const place = (each) => el("a", { href: query("/", { topic: each.topic, partition: each.partition, offset: each.start_offset ?? 0 }) }, `${each.topic}-${each.partition}`);
const offsets = ({ first_offset: first, last_offset: last }) => (first === last ? `${first}` : `${first} to ${last}`);
const unread = (value) => value?.toLocaleString("en") ?? "not read";
const deliveries = (each) => Object.entries(each.delivery_counts).map(([times, records]) => `${count(records, "record")} ${times}×`).join(", ");

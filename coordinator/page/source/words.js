// Events, times and ids in words, for tool tips, tables and screen readers.

import { utcFormat } from "d3-time-format";

const UUID = /([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const LONG = 24;
const moment = utcFormat("%Y-%m-%d %H:%M:%S.%L");
const time = utcFormat("%H:%M:%S.%L");

export const clock = (ms) => (ms === null || ms === undefined ? "" : moment(new Date(ms)));
export const clockTime = (ms) => time(new Date(ms));

export function duration(ms) {
  if (ms === null || ms === undefined || ms < 0) return "unknown";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(number) {
  if (number === null || number === undefined) return "unknown";
  const power = number < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(number) / 10));
  const value = number / 1024 ** power;
  return `${value < 10 && power ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ${UNITS[power]}`;
}

// 0, 1, 2, 5 as "0-2, 5".
export function ranges(numbers) {
  const found = [];
  for (const each of [...numbers].sort((a, b) => a - b)) {
    if (found.length && each === found.at(-1)[1] + 1) found.at(-1)[1] = each;
    else found.push([each, each]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(", ");
}

// A member id for people: of a UUID only its first eight digits.
export function shortId(id) {
  const found = UUID.exec(id ?? "");
  if (found) return `${id.slice(0, found.index)}${found[1]}…`;
  return (id ?? "").length <= LONG ? (id ?? "") : `${id.slice(0, LONG - 1)}…`;
}

// The glob that matches this name alone: fields of a rule are globs, and clients choose names with their characters.
export const exactly = (name) => name.replace(/[*?[]/g, "[$&]");

export const hostName = (host) => (host ?? "").replace(/^\//, "");
export const errorName = (error) => error ?? "accepted";
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// A member as its client, host and short id. `clients`: member id -> {client_id, host}.
export function member(id, clients) {
  if (!id) return "a request without a member";
  const client = clients.get(id);
  if (!client?.client_id) return shortId(id);
  return `${client.client_id}${client.host ? ` on ${hostName(client.host)}` : ""}, ${shortId(id)}`;
}

const PHRASES = {
  EventLogOpened: (e) => ({ start: "the server started", reload: "the group's state was loaded again" })[e.cause]
    ?? "the event log accepts events again",
  EventLogClosed: () => "the server stopped",
  RebalanceStarted: (e, who) =>
    `rebalance to epoch ${e.epoch} started: ${e.cause || "unknown cause"}${e.member_id ? ` (${who(e.member_id)})` : ""}`
    + (e.reason ? `; reason given: ${e.reason}` : ""),
  RebalanceCompleted: (e, who) => `epoch ${e.epoch} reached after ${duration(e.duration_ms)}, with ${count(e.members ?? 0, "member")}`
    + waits(e, who),
  RebalanceOvertaken: (e, who) => `rebalance to epoch ${e.epoch} was overtaken by another after ${duration(e.duration_ms)}${waits(e, who)}`,
  MemberJoined: (e, who) => `${who(e.member_id)} joined`,
  MemberLeft: (e, who) => `${who(e.member_id)} left${e.epoch === -2 ? " and will return" : ""}${e.reason ? `: ${e.reason}` : ""}`,
  MemberExpired: (e, who) => `${who(e.member_id)} was removed: its ${e.timeout} timeout ran out`
    + (e.timeout_ms > 0 ? ` (${duration(e.timeout_ms)})` : "")
    + (e.connection_end ? `; its connection had ended: ${e.connection_end}` : e.client_port >= 0 ? "; its connection was open" : ""),
  MemberFenced: (e, who) => `${e.api} of ${who(e.member_id)} was refused: ${errorName(e.error_code)}`,
  RequestRefused: (e, who) => `${e.api} of ${who(e.member_id)} was refused: ${errorName(e.error_code)}${e.error_message ? `, ${e.error_message}` : ""}`,
  OffsetsRewound: (e, who) => `${e.cause}${e.member_id ? ` (${who(e.member_id)})` : ` (${e.client_id ?? "no client id"})`}: ${rewound(e)}`,
  AcquisitionLockExpired: (e, who) => `${e.cause || "the lock ended"} of ${who(e.member_id)} on ${delivered(e)}`,
  RecordsArchived: (e, who) => `${delivered(e)} of ${who(e.member_id)} will not be delivered again: ${e.cause}`,
  RecordsAcquired: (e, who) => `${who(e.member_id)} acquired ${delivered(e)}`,
  RecordsAcknowledged: (e, who) => `${who(e.member_id)} acknowledged ${delivered(e)}`,
  RecordsReleased: (e, who) => `${who(e.member_id)} gave back ${delivered(e)}: ${e.cause}`,
  RecordsDeadLettered: (e) => e.reason ? `${delivered(e)} are in no dead-letter queue: ${e.reason}`
    : `${delivered(e)} are in the dead-letter queue ${e.queue_topic}-${e.queue_partition} from offset ${e.queue_offset} on: ${e.cause}`,
  SharePartitionsInitialized: (e) => `${e.principal ? `${e.principal} set the start of` : "the group can read"} ${count(assigned(e), "partition")}: `
    + (e.error_code ? errorName(e.error_code) : started(e)),
  AssignmentDelivered: (e, who) => `${who(e.member_id)} received ${count(assigned(e), "partition")} in epoch ${e.epoch}`,
  AssignmentAcknowledged: (e, who) => `${who(e.member_id)} owns exactly its assignment of epoch ${e.epoch}`,
  AssignmentInvalid: (e, who) => `the assignment of ${who(e.member_id)} breaks rules${e.refused ? " and was refused" : ""}`,
  AssignmentFailed: (e, who) => `${who(e.member_id)} cannot assign epoch ${e.epoch}: ${errorName(e.error_code)}`,
  GroupConverted: (e) => `the group was converted; its epoch is ${e.epoch}`,
  GroupResynced: (e, who) => `${who(e.member_id)} replaced the assignments of epoch ${e.epoch}`,
  CommitDecided: commit,
  FaultActed: (e, who) => `fault ${e.fault} acted on ${e.api}${e.member_id ? ` of ${who(e.member_id)}` : ""}: ${action(e.action)}`,
};

// What an event says, as a sentence without a full stop.
export function sentence(event, clients) {
  return PHRASES[event.type]?.(event, (id) => member(id, clients)) ?? event.type;
}

export function action(value) {
  return typeof value === "object" && value !== null
    ? Object.entries(value).map(([key, each]) => `${key} ${typeof each === "object" ? JSON.stringify(each) : each}`).join(", ")
    : String(value);
}

// Which requests a rule means, with its conditions on fields of the request: "api Heartbeat, MemberEpoch > 3".
export function matchWords({ where = {}, ...fields } = {}) {
  const parts = Object.entries(fields).map(([key, value]) => `${key.replaceAll("_", " ")} ${[value].flat().join(key === "version" ? " to " : " or ")}`);
  return [...parts, ...Object.entries(where).map(([field, wanted]) => condition(field, wanted))].join(", ") || "all requests";
}

function condition(field, wanted) {
  const text = (value) => (Array.isArray(value) ? `one of ${value.map((each) => JSON.stringify(each)).join(", ")}` : JSON.stringify(value));
  if (typeof wanted !== "object" || wanted === null || Array.isArray(wanted)) return `${field} = ${text(wanted)}`;
  return Object.entries(wanted).map(([operator, value]) => `${field} ${operator} ${text(value)}`).join(" and ");
}

function waits(event, who) {
  const longest = [...(event.waited_for ?? [])].sort((a, b) => b.waited_ms - a.waited_ms)[0];
  return longest?.waited_ms ? `; waited longest for ${who(longest.member_id)}: ${duration(longest.waited_ms)}` : "";
}

function rewound(event) {
  const partitions = event.topics.flatMap((topic) => topic.partitions.map((each) => ({ name: `${topic.topic_name}-${each.partition}`, ...each })));
  const first = partitions.slice(0, 3).map((each) => `${each.name} ${each.previous_offset} to ${each.committed_offset < 0 ? "none" : each.committed_offset}`).join(", ");
  const records = partitions.reduce((sum, each) => sum + (each.committed_offset < 0 ? 0 : each.previous_offset - each.committed_offset), 0);
  return `${first}${partitions.length > 3 ? ` and ${partitions.length - 3} more` : ""}; ${count(records, "record")} again`;
}

// Records of a share group: "3 records of orders-0 (7 to 9, delivered 2 times)".
function delivered(event) {
  const { first_offset: first, delivery_count: times } = event.ranges[0];
  const last = event.ranges.at(-1).last_offset;
  const most = Math.max(times, ...event.ranges.map((each) => each.delivery_count));
  const place = `${event.topic_name || event.topic_id}-${event.partition}`;
  return `${count(event.records, "record")} of ${place} (${first === last ? first : `${first} to ${last}`}, delivered ${count(most, "time")})`;
}

function started(event) {
  const starts = event.topics.flatMap((topic) => topic.partitions.map((each) =>
    `${topic.topic_name}-${each.partition}${each.start_offset < 0 ? "" : ` from ${each.start_offset}`}`));
  return `${starts.slice(0, 3).join(", ")}${starts.length > 3 ? ` and ${starts.length - 3} more` : ""}`;
}

const assigned = (event) => (event.topics ?? []).reduce((sum, topic) => sum + topic.partitions.length, 0);

function commit(event, who) {
  const partitions = (event.topics ?? []).flatMap((topic) =>
    topic.partitions.map((each) => ({ name: `${topic.topic_name}-${each.partition}`, ...each })));
  const refused = partitions.filter((each) => each.error_code);
  const named = partitions.length === 1 ? `${partitions[0].name} at ${partitions[0].committed_offset}` : count(partitions.length, "partition");
  const outcome = event.error_code ? `was refused: ${errorName(event.error_code)}`
    : refused.length ? `was refused for ${count(refused.length, "partition")}: ${errorName(refused[0].error_code)}` : "was accepted";
  return `a commit of ${who(event.member_id)} (${named}) ${outcome}`;
}

// How long ago a moment was, in words.
export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 2) return "just now";
  return seconds < 60 ? `${seconds} s ago` : `${duration(seconds * 1000)} ago`;
}

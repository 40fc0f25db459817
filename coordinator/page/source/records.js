// A look at the records of a partition: key and value as text, JSON or hex, headers, transaction, control records.

import { get, query, topicPath } from "./api.js";
import { el, replace, table } from "./dom.js";
import { bytes, clock, count } from "./words.js";

const LIMIT = 50;
const HEX_MAX = 256;
const LONG = 90;

export class Records {
  constructor(topic, asked) {
    this.topic = topic;
    const option = (value, text = value) => el("option", { value }, text);
    const field = (text, input) => el("label", { for: input.id }, text, input);
    this.partition = el("select", { id: "partition", onchange: () => this.read(-1) }, option("0"));
    this.offset = el("input", { type: "number", id: "offset", min: 0, placeholder: "the newest" });
    this.as = el("select", { id: "as", onchange: () => this.show() }, option("json", "JSON, or text"), option("text", "text"), option("hex", "hex"));
    const button = (text, act) => el("button", { type: "button", onclick: act }, text);
    this.older = button("older", () => this.read(Math.max(this.page.start_offset, (this.page.records[0]?.offset ?? this.page.next) - LIMIT)));
    this.newer = button("newer", () => this.read(this.page.next));
    this.said = el("p", { role: "status", class: "key" }, " ");
    this.body = el("div");
    this.wanted = asked.get("partition");
    this.element = el("div", {}, el("form", { class: "tools", "aria-label": "Which records", onsubmit: (event) => this.submit(event) },
      field("partition", this.partition), field("from offset", this.offset), field("show as", this.as), el("button", { type: "submit" }, "Read"),
      this.older, this.newer, button("newest", () => this.read(-1))), this.said, this.body);
    this.older.disabled = this.newer.disabled = true;
    if (this.wanted !== null) this.open(this.wanted, asked.get("offset"));
    else this.read(-1);
  }

  showPartitions(number) {
    if (this.partition.options.length === number) return;
    const chosen = this.partition.value;
    replace(this.partition, Array.from({ length: number }, (_, each) => el("option", { value: each }, each)));
    this.partition.value = chosen;
  }

  open(partition, offset = null) {
    if (![...this.partition.options].some((each) => each.value === String(partition))) this.partition.append(el("option", { value: partition }, partition));
    this.partition.value = partition;
    this.read(offset ?? -1);
  }

  submit(event) {
    event.preventDefault();
    this.read(this.offset.value === "" ? -1 : this.offset.value);
  }

  async read(offset) {
    const token = (this.token = {});
    const partition = this.partition.value;
    try {
      const page = await get(query(topicPath(this.topic, `/partitions/${encodeURIComponent(partition)}/records`), { offset, limit: LIMIT }));
      if (this.token !== token) return;
      this.page = page;
      history.replaceState(null, "", query("/", { topic: this.topic, partition, offset: page.records[0]?.offset ?? null }));
      this.show();
    } catch (error) {
      if (this.token !== token) return;
      this.said.textContent = error.status === 401 || error.status === 403 ? `Records are shown with credentials only: ${error.message}` : error.message;
      replace(this.body);
    }
  }

  show() {
    if (!this.page) return;
    const { records, start_offset: start, end_offset: end, stable_offset: stable, next } = this.page;
    this.older.disabled = (records[0]?.offset ?? next) <= start;
    this.newer.disabled = next >= end;
    this.said.textContent = records.length ? `${count(records.length, "record")} of the offsets ${start.toLocaleString("en")} to ${(end - 1).toLocaleString("en")}`
      + `${stable < end ? `; transactions are open from ${stable.toLocaleString("en")} on` : ""}.` : "No record here.";
    replace(this.body, records.length ? table("Records of the partition", ["offset", "time (UTC)", "key", "value", "headers", "transaction"], records.map((each) => [
      each.offset, el("span", { class: "time", title: each.time_type === "append" ? "when the log got it" : "when the producer made it" }, clock(each.time_ms)),
      each.control ? el("span", { class: "key" }, "control record") : this.content(each.key),
      each.control ? el("strong", {}, `${each.control.type}${each.control.coordinator_epoch === null ? "" : ` by coordinator epoch ${each.control.coordinator_epoch}`}`) : this.content(each.value),
      el("div", {}, each.headers.map((header) => el("p", { class: "header" }, el("b", {}, header.key), ": ", this.content(header.value))),
        each.headers_left_out ? `and ${each.headers_left_out} more` : null),
      transaction(each),
    ]), [0], "records") : null);
  }

  content(value) {
    if (!value) return el("span", { class: "key" }, "null");
    const raw = value.base64 === undefined ? null : Uint8Array.from(atob(value.base64), (each) => each.charCodeAt(0));
    const isHex = this.as.value === "hex" || raw !== null;
    const shown = isHex ? hex(raw ?? new TextEncoder().encode(value.text ?? "")) : this.as.value === "json" && !value.cut ? json(value.text ?? "") : (value.text ?? "");
    return el("span", {}, folded(shown), value.cut ? el("span", { class: "key" }, ` … of ${bytes(value.size)}`) : null);
  }
}

function transaction(record) {
  if (record.control) return `producer ${record.producer_id}`;
  if (!record.transaction) return "";
  const { state, producer_id: id, producer_epoch: epoch } = record.transaction;
  return el("span", {}, el("span", { class: { committed: "good", aborted: "bad", open: "warn" }[state] }, state), `, producer ${id}, epoch ${epoch}`);
}

// A long text as its beginning, which opens.
function folded(text) {
  if (text.length <= LONG) return el("span", { class: "content" }, text);
  return el("details", { class: "content" }, el("summary", {}, text.slice(0, LONG).replace(/\s+/g, " "), "…"), text);
}

function json(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  return pretty(text);
}

// JSON with line breaks, and every number as it was written: JSON.parse would round large ones.
function pretty(text) {
  let [made, depth] = ["", 0];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g)) {
    const last = made.at(-1);
    const isEmpty = last === "{" || last === "[";
    if (token === "}" || token === "]") {
      depth -= 1;
      made += isEmpty ? token : `\n${"  ".repeat(depth)}${token}`;
      continue;
    }
    if (isEmpty || last === ",") made += `\n${"  ".repeat(depth)}`;
    made += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
  }
  return made;
}

function hex(all) {
  const shown = [...all.slice(0, HEX_MAX)].map((each) => each.toString(16).padStart(2, "0"));
  const lines = Array.from({ length: Math.ceil(shown.length / 16) }, (_, line) => shown.slice(line * 16, line * 16 + 16).join(" "));
  return lines.join("\n") + (all.length > HEX_MAX ? "\n…" : "");
}

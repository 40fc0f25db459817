// A small form for a fault rule of the group: which requests, what happens to them, how often.

import { el, replace } from "./dom.js";
import errors from "./errors.json";
import { exactly, shortId } from "./words.js";

const APIS = ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "OffsetCommit", "OffsetFetch",
  "TxnOffsetCommit", "AddOffsetsToTxn", "FindCoordinator", "ConsumerGroupDescribe", "DescribeGroups", "OffsetDelete", "DeleteGroups"];
const ACTIONS = {
  error: ["answer with an error", (form) => ({ error: form.error.value })],
  "lose request": ["lose the request", () => ({ lose: "request" })],
  "lose answer": ["do it, lose the answer", () => ({ lose: "answer" })],
  delay: ["delay it", (form) => ({ delay_ms: Number(form.ms.value), when: "before" })],
  "delay answer": ["do it, delay the answer", (form) => ({ delay_ms: Number(form.ms.value), when: "after" })],
  "hold request": ["hold it until released", () => ({ hold: "request" })],
  "hold answer": ["do it, hold the answer until released", () => ({ hold: "answer" })],
  close: ["close the connection", () => ({ close: true })],
  throttle: ["throttle as a quota does", (form) => ({ throttle_ms: Number(form.ms.value) })],
  moved: ["coordinator moved", () => ({ coordinator: "moved" })],
  loading: ["coordinator is loading", () => ({ coordinator: "loading" })],
  unavailable: ["coordinator not available", () => ({ coordinator: "unavailable" })],
};
const TIMED = ["delay", "delay answer", "throttle"];

export class FaultForm {
  // `add(rule)` sets it. `hasGroup`: the group is known already.
  constructor(add, { hasGroup }) {
    const option = (value, text = value) => el("option", { value }, text);
    this.api = el("select", { id: "fault-api" }, APIS.map((each) => option(each)));
    this.api.value = "Heartbeat";
    this.group = el("input", { id: "fault-group", placeholder: "all groups" });
    this.member = el("select", { id: "fault-member" }, option("", "any member"));
    this.action = el("select", { id: "fault-action", onchange: () => this.showFields() }, Object.entries(ACTIONS).map(([key, [text]]) => option(key, text)));
    this.error = el("input", { id: "fault-error", list: "error-names", value: "REBALANCE_IN_PROGRESS" });
    this.ms = el("input", { id: "fault-ms", type: "number", min: 1, value: 1000 });
    this.times = el("input", { id: "fault-times", type: "number", min: 1, value: 1, placeholder: "until cleared" });
    const names = el("datalist", { id: "error-names" }, errors.map((each) => option(each)));
    const field = (text, input) => el("label", { for: input.id }, text, input);
    this.errorField = field("error", this.error);
    this.msField = field("milliseconds", this.ms);
    this.element = el("form", { class: "tools", "aria-label": "Set a fault", onsubmit: (event) => this.submit(event, add) },
      field("request", this.api), hasGroup ? field("of", this.member) : field("of group (glob)", this.group), field("what happens", this.action), this.errorField, this.msField,
      field("times (empty: until cleared)", this.times), names, el("button", { type: "submit" }, "Set fault"));
    this.showFields();
  }

  showFields() {
    this.errorField.hidden = this.action.value !== "error";
    this.msField.hidden = !TIMED.includes(this.action.value);
  }

  showMembers(members) {
    const key = members.map((each) => each.member_id).join("\n");
    if (key === this.key || this.member === document.activeElement) return;
    this.key = key;
    const chosen = this.member.value;
    replace(this.member, el("option", { value: "" }, "any member"),
      members.map((each) => el("option", { value: each.member_id }, `${each.client_id} ${shortId(each.member_id)}`)));
    this.member.value = members.some((each) => each.member_id === chosen) ? chosen : "";
  }

  submit(event, add) {
    event.preventDefault();
    const match = { api: this.api.value };
    if (this.group.value) match.group = this.group.value;
    if (this.member.value) match.member_id = exactly(this.member.value);
    const extent = this.times.value ? { times: Number(this.times.value) } : { times: null, until: "cleared" };
    add({ match, action: ACTIONS[this.action.value][1](this), extent });
  }
}

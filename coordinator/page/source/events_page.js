// What happened, to whatever group: searched by group, member, client or type, the newest first, and followed as it happens.

import { get, groupPage, query } from "./api.js";
import { el, replace, table } from "./dom.js";
import { clock, count, sentence } from "./words.js";

const TYPES = ["EventLogOpened", "EventLogClosed", "RebalanceStarted", "RebalanceCompleted", "RebalanceOvertaken", "MemberJoined", "MemberLeft",
  "MemberExpired", "MemberFenced", "RequestRefused", "OffsetsRewound", "AssignmentDelivered", "AssignmentAcknowledged", "AssignmentInvalid",
  "AssignmentFailed", "GroupConverted", "GroupResynced", "AcquisitionLockExpired",
  "RecordsArchived", "RecordsReleased", "RecordsDeadLettered", "SharePartitionsInitialized", "FaultActed", "CommitDecided", "RecordsAcquired",
  "RecordsAcknowledged"];
const FREQUENT = ["CommitDecided", "RecordsAcquired", "RecordsAcknowledged"];
export const NOT_COMMITS = TYPES.filter((each) => !FREQUENT.includes(each)).join();
const SINCE = { 600_000: "ten minutes", 3_600_000: "an hour", 86_400_000: "a day", 0: "the beginning" };
const PAGE = 1000;
const KEPT_MAX = 5000;
const SHOWN = 100;

export class EventsPage {
  constructor(root, shell, asked) {
    const option = ([value, text]) => el("option", { value }, text);
    const select = (id, options) => el("select", { id }, options.map(option));
    const field = (text, input) => el("label", { for: input.id }, text, input);
    this.by = select("by", [["group", "group"], ["member", "member"], ["client", "client or host"]]);
    this.text = el("input", { type: "search", id: "text", placeholder: "everything" });
    this.type = select("type", [[NOT_COMMITS, "all but commits and deliveries"], ["", "all"], ...TYPES.map((each) => [each, each])]);
    this.since = select("since", Object.entries(SINCE).sort((a, b) => (a[0] || Infinity) - (b[0] || Infinity)));
    this.since.value = "3600000";
    this.by.value = ["group", "member", "client"].includes(asked.get("by")) ? asked.get("by") : "group";
    this.text.value = asked.get("search") ?? "";
    this.said = el("p", { role: "status", class: "key" }, " ");
    this.more = el("button", { type: "button", onclick: () => this.showNew() }, "");
    this.older = el("button", { type: "button", onclick: () => this.turn(1) }, "older");
    this.newer = el("button", { type: "button", onclick: () => this.turn(-1) }, "newer");
    this.body = el("div");
    replace(root, el("h1", {}, "Events"),
      el("form", { class: "tools", "aria-label": "Search events", onsubmit: (event) => this.submit(event) },
        field("search by", this.by), field("text", this.text), field("type", this.type), field("since", this.since), el("button", { type: "submit" }, "Search")),
      el("div", { class: "tools" }, this.newer, this.older, this.more, this.said), this.body);
    this.search();
  }

  submit(event) {
    event.preventDefault();
    history.replaceState(null, "", query("/", { view: "events", by: this.by.value, search: this.text.value }));
    this.search();
  }

  async search() {
    const token = (this.token = {});
    this.source?.close();
    Object.assign(this, { events: [], fresh: [], clients: new Map(), page: 0, how: "reading" });
    const since = Number(this.since.value);
    const wanted = { [this.by.value]: this.text.value, type: this.type.value, limit: PAGE };
    const sinceMs = since ? Date.now() - since : null;
    this.show();
    try {
      let after = null;
      for (;;) {
        const page = await get(query("/v1/events/page", { ...wanted, since_ms: sinceMs, after }));
        if (this.token !== token) return;
        this.events = this.take(this.events, page.events);
        after = page.next;
        this.say();
        if (page.at_end) break;
      }
      this.follow({ ...wanted, limit: null, after, follow: "true" });
      this.how = "following live";
      this.show();
    } catch (error) {
      if (this.token === token) this.say(error.message);
    }
  }

  follow(wanted) {
    const token = this.token;
    this.source = new EventSource(query("/v1/events", wanted));
    this.source.onmessage = (message) => {
      if (this.token !== token) return;
      this.fresh = this.take(this.fresh, [JSON.parse(message.data)]);
      this.showMore();
    };
    this.source.addEventListener("end", (message) => this.say(JSON.parse(message.data).reason));
  }

  take(events, more) {
    for (const each of more) if (each.type === "MemberJoined") this.clients.set(each.member_id, { client_id: each.client_id, host: each.client_host });
    return [...events, ...more].slice(-KEPT_MAX);
  }

  // New events wait for the reader: the table stays as it is until the button is pressed.
  showMore() {
    this.more.hidden = !this.fresh.length;
    this.more.textContent = `show ${count(this.fresh.length, "new event")}`;
  }

  showNew() {
    this.events = this.take(this.events, this.fresh);
    this.fresh = [];
    this.turn(-this.page);
  }

  turn(by) {
    this.page += by;
    this.show();
  }

  say(how = this.how) {
    this.how = how;
    this.said.textContent = `${count(this.events.length, "event")}${this.events.length === KEPT_MAX ? ", the newest" : ""}; ${how}.`;
  }

  show() {
    this.showMore();
    this.say();
    const first = this.page * SHOWN;
    const shown = [...this.events].reverse().slice(first, first + SHOWN);
    this.newer.disabled = !this.page;
    this.older.disabled = first + SHOWN >= this.events.length;
    replace(this.body, table("Events", ["time (UTC)", "group", "type", "what happened"], shown.map((each) => [
      el("span", { class: "time" }, clock(each.time_ms)),
      each.group ? el("a", { href: groupPage(each.group, each.offset ?? `t${each.time_ms}`) }, each.group) : "",
      each.type, sentence(each, this.clients),
    ]), [], "events"));
  }
}

// One look at the server: which it is, how it is, how much it does, which groups are in trouble, and what happened last.

import { get, query, repeat } from "./api.js";
import { el, replace } from "./dom.js";
import { NOT_COMMITS } from "./events_page.js";
import { groupTable } from "./groups_page.js";
import { spark } from "./mini.js";
import { refill } from "./refill.js";
import { clockTime, count, duration, sentence } from "./words.js";

const EVERY_MS = 3000;
const POINTS = 90;
const TROUBLED = 8;
const EVENTS = 10;
const EVENTS_MS = 3_600_000;

class Rate {
  // `name`: of the counter in `/v1/overview`.
  constructor(name, title) {
    Object.assign(this, { name, title, before: null, values: [] });
    this.now = el("p", { class: "big" }, "…");
    this.line = el("div", { class: "line" });
    this.element = el("section", { class: "card", "aria-label": title }, el("h2", {}, title), this.now, this.line);
  }

  add(overview) {
    const [value, time] = [overview[this.name] ?? null, overview.time_ms];
    const passed = this.before === null ? 0 : time - this.before.time;
    const rate = value === null || !this.before || this.before.value === null || passed <= 0 || value < this.before.value ? null
      : ((value - this.before.value) * 1000) / passed;
    this.before = { value, time };
    if (value !== null && !passed) return;
    this.values.push(rate);
    if (this.values.length > POINTS) this.values.shift();
    this.now.textContent = rate === null ? "unknown" : Math.round(rate).toLocaleString("en");
    const most = Math.max(0, ...this.values);
    replace(this.line, spark(this.values, POINTS, `${this.title}: now ${this.now.textContent}, highest ${Math.round(most).toLocaleString("en")} since the page was opened`));
  }
}

export class OverviewPage {
  constructor(root, shell) {
    this.facts = el("dl", { class: "facts" });
    this.health = el("div");
    this.requests = new Rate("requests", "Requests a second");
    this.commits = new Rate("offsets_committed", "Offsets committed a second");
    this.states = el("div", { class: "states" });
    this.trouble = el("div");
    this.events = el("div");
    replace(root, el("h1", {}, "Overview"), this.facts, this.health,
      el("div", { class: "cards" }, this.requests.element, this.commits.element,
        el("section", { class: "card", "aria-label": "Groups by state" }, el("h2", {}, "Groups by state"), this.states)),
      el("section", { "aria-label": "Groups in trouble" }, el("h2", {}, "Groups that rebalance, or did in the last five minutes"), this.trouble),
      el("section", { "aria-label": "Last events" }, el("h2", {}, "Last events"), this.events));
    shell.watch((overview) => this.show(overview));
    repeat(() => this.refresh(), EVERY_MS);
  }

  show(overview) {
    if (!overview) {
      refill(this.facts, fact("server", "unknown"));
      return;
    }
    const known = (value) => value?.toLocaleString("en") ?? "unknown";
    refill(this.facts, fact("server", overview.server), fact("version", overview.version), fact("address", overview.addresses.join(", ")),
      fact("up for", duration(overview.uptime_ms)), fact("connections", known(overview.connections)), fact("members", known(overview.members)),
      fact("topics", `${known(overview.topics)}, ${known(overview.partitions)} partitions`), fact("control", overview.control ? "on" : "off"));
    const wrong = [...overview.reasons, ...overview.warnings];
    refill(this.health, wrong.length
      ? el("div", { class: `verdict ${overview.status === "ready" ? "warned" : "alarmed"}` }, el("strong", {}, overview.status === "ready" ? "Ready, but:" : "Not ready:"),
        el("ul", {}, wrong.map((each) => el("li", {}, each))))
      : el("p", { class: "verdict fine" }, overview.unknown?.length ? "Ready: the cluster is read." : "Ready: every shard is loaded and accepts writes."),
    unknownList(overview.unknown));
    this.requests.add(overview);
    this.commits.add(overview);
    const states = Object.entries(overview.groups).sort((a, b) => b[1] - a[1]);
    const all = states.reduce((sum, [, each]) => sum + each, 0);
    refill(this.states, el("p", { class: "big" }, all.toLocaleString("en")),
      states.map(([state, number]) => el("p", {}, el("span", { class: stateClass(state) }, state), ` ${number.toLocaleString("en")}`)));
  }

  async refresh() {
    try {
      const { groups } = await get(query("/v1/groups", { sort: "trouble", limit: TROUBLED }));
      const troubled = groups.filter((each) => each.rebalances?.length);
      refill(this.trouble, troubled.length ? groupTable("Troubled groups", troubled) : el("p", { class: "nothing" }, "None."));
    } catch (error) {
      refill(this.trouble, el("p", { class: "nothing" }, `Unknown: ${error.message}`));
    }
    try {
      const events = await newest();
      refill(this.events, events.length ? el("ul", { class: "feed" }, events.map((each) => el("li", {}, el("span", { class: "time" }, clockTime(each.time_ms)), " ",
        each.group ? el("a", { href: query("/", { group: each.group, moment: each.offset }) }, each.group) : "the server", " ", sentence(each, new Map()))))
        : el("p", { class: "nothing" }, "None in the last hour."));
    } catch (error) {
      refill(this.events, el("p", { class: "nothing" }, `No events: ${error.message}`));
    }
  }
}

let kept = [];
let after = null;

// The newest events of the last hour without commits: what is new since the last call is read, at most a few pages of it.
async function newest() {
  for (let page = 0; page < 5; page += 1) {
    const found = await get(query("/v1/events/page", { type: NOT_COMMITS, since_ms: after ? null : Date.now() - EVENTS_MS, after, limit: 1000 }));
    kept = [...kept, ...found.events].slice(-EVENTS);
    after = found.next;
    if (found.at_end) break;
  }
  return [...kept].reverse();
}

// What a watcher of a cluster cannot know.
export const unknownList = (unknown) => (unknown?.length ? el("details", { class: "about" }, el("summary", {}, "What is unknown here"),
  el("ul", {}, unknown.map((each) => el("li", {}, each)))) : null);

const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));

export const stateClass = (state) => `state ${state === "Stable" ? "good" : ["Empty", "Dead"].includes(state) ? "" : "warn"}`;

// All groups, those in most trouble first: state, the last five minutes, who makes them rebalance, lag, and why they last rebalanced.

import { get, groupPage, query, repeat } from "./api.js";
import { el, replace, table } from "./dom.js";
import { miniature } from "./mini.js";
import { stateClass } from "./overview_page.js";
import { refill } from "./refill.js";
import { ago, count, shortId } from "./words.js";

const PAGE = 100;
const EVERY_MS = 2000;
const WINDOW_MS = 300_000;

export class GroupsPage {
  constructor(root) {
    this.pages = [null]; // the `after` of this page and of those before it
    this.next = null;
    this.isLive = true;
    this.order = [];
    this.filter = el("input", { type: "search", id: "filter", placeholder: "part of a name", oninput: () => this.search() });
    this.sort = el("select", { id: "sort", onchange: () => this.search() }, el("option", { value: "trouble" }, "most trouble first"), el("option", { value: "name" }, "by name"));
    this.live = el("button", { type: "button", "aria-pressed": "true", onclick: () => this.setLive(!this.isLive) }, "Follow live");
    this.newer = el("button", { type: "button", onclick: () => this.turn(-1) }, "previous page");
    this.older = el("button", { type: "button", onclick: () => this.turn(1) }, "next page");
    this.said = el("p", { role: "status", class: "key" }, "…");
    this.body = el("div", { class: "steady" });
    replace(root, el("h1", {}, "Groups"),
      el("div", { class: "tools" }, el("label", { for: "filter" }, "Filter"), this.filter, el("label", { for: "sort" }, "Order"), this.sort, this.live, this.newer, this.older),
      this.said, this.body);
    repeat(() => (this.isLive ? this.refresh() : null), EVERY_MS);
  }

  setLive(isLive) {
    this.isLive = isLive;
    this.live.setAttribute("aria-pressed", String(isLive));
    if (isLive) this.refresh();
  }

  search() {
    this.pages = [null];
    this.order = [];
    this.refresh();
  }

  turn(direction) {
    if (direction > 0 && this.next) this.pages.push(this.next);
    if (direction < 0 && this.pages.length > 1) this.pages.pop();
    this.refresh();
  }

  async refresh() {
    const asked = query("/v1/groups", { limit: PAGE, after: this.pages.at(-1), contains: this.filter.value, sort: this.sort.value });
    this.asked = asked;
    try {
      const answer = await get(asked);
      if (this.asked === asked) this.show(answer);
    } catch (error) {
      this.said.textContent = `${error.message}; trying again`;
    }
  }

  show({ groups, next = null, total = null, of_worker: part = null }) {
    this.next = next;
    const byName = this.sort.value === "name";
    this.newer.hidden = this.older.hidden = !byName;
    this.newer.disabled = this.pages.length === 1;
    this.older.disabled = !next;
    const first = (this.pages.length - 1) * PAGE + 1;
    const where = part ? `, of node ${part.node_id} alone, which has ${part.shards} of ${part.shards_of_all} shards` : "";
    const shown = !groups.length ? "No group" : byName ? `Groups ${first} to ${first + groups.length - 1}${next ? ", and more" : ""}`
      : total > groups.length ? `The ${groups.length} groups in most trouble of ${total.toLocaleString("en")}` : count(groups.length, "group");
    this.said.textContent = `${shown}${where}.`;
    refill(this.body, groups.length ? groupTable("Groups", this.held(groups)) : null);
  }

  // The groups in the order of before while the pointer or the focus is there: rows do not move away.
  held(groups) {
    const isRead = this.body.matches(":hover, :focus-within");
    const place = new Map(this.order.map((each, at) => [each, at]));
    const sorted = isRead ? [...groups].sort((a, b) => (place.get(a.group_id) ?? Infinity) - (place.get(b.group_id) ?? Infinity)) : groups;
    this.order = sorted.map((each) => each.group_id);
    return sorted;
  }
}

export function groupTable(about, groups) {
  const now = Date.now();
  const rows = groups.map((each) => [
    el("a", { href: groupPage(each.group_id) }, each.group_id || "(empty name)"),
    el("span", { class: stateClass(each.state) }, each.state),
    each.rebalances ? miniature(each.rebalances, now, WINDOW_MS, `${count(each.rebalances.length, "rebalance")} in the last five minutes`) : "unknown",
    each.rebalancing_share === undefined ? "unknown" : share(each.rebalancing_share),
    each.culprit ? `${shortId(each.culprit)} (${each.culprit_rebalances})` : "",
    lagText(each), each.member_count, each.kind,
    each.last_rebalance ? `${ago(each.last_rebalance.started_ms)}: ${each.last_rebalance.cause}` : "",
  ]);
  const heads = ["group", "state", "last five minutes", "rebalancing", "worst culprit", "lag", "members", "kind", "last rebalance, and why"];
  return table(about, heads, rows, [3, 5, 6], "groups");
}

export const lagText = (group) => group.lag?.toLocaleString("en") ?? (group.offset_count ? "unknown" : "none");

const share = (part) => (part === 0 ? "0 %" : part < 0.01 ? "< 1 %" : `${Math.round(part * 100)} %`);

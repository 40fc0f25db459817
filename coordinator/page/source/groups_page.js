// All groups with their state, members, lag, and why they last rebalanced.

import { get, groupPage, query, repeat } from "./api.js";
import { el, replace, table } from "./dom.js";
import { refill } from "./refill.js";
import { top } from "./top.js";
import { ago } from "./words.js";

const PAGE = 100;
const EVERY_MS = 2000;

export class GroupsPage {
  constructor(root) {
    this.pages = [null]; // the `after` of this page and of those before it
    this.next = null;
    this.isLive = true;
    this.filter = el("input", { type: "search", id: "filter", placeholder: "part of a name", oninput: () => this.search() });
    this.live = el("button", { type: "button", "aria-pressed": "true", onclick: () => this.setLive(!this.isLive) }, "Follow live");
    this.newer = el("button", { type: "button", onclick: () => this.turn(-1) }, "previous page");
    this.older = el("button", { type: "button", onclick: () => this.turn(1) }, "next page");
    this.said = el("p", { role: "status", class: "key alert" });
    this.body = el("div");
    replace(root, top(),
      el("h1", {}, "Groups"),
      el("div", { class: "tools" }, el("label", { for: "filter" }, "Filter"), this.filter, this.live, this.newer, this.older),
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
    this.refresh();
  }

  turn(direction) {
    if (direction > 0 && this.next) this.pages.push(this.next);
    if (direction < 0 && this.pages.length > 1) this.pages.pop();
    this.refresh();
  }

  async refresh() {
    const asked = query("/v1/groups", { limit: PAGE, after: this.pages.at(-1), contains: this.filter.value });
    this.asked = asked;
    try {
      const answer = await get(asked);
      if (this.asked === asked) this.show(answer);
    } catch (error) {
      this.said.textContent = `${error.message}; trying again`;
    }
  }

  show({ groups, next = null, of_worker: part = null }) {
    this.next = next;
    this.newer.disabled = this.pages.length === 1;
    this.older.disabled = !next;
    const first = (this.pages.length - 1) * PAGE;
    const shown = groups.length ? `Groups ${first + 1} to ${first + groups.length}${next ? ", and more" : ""}` : "No group";
    const where = part ? `, of node ${part.node_id} alone, which has ${part.shards} of ${part.shards_of_all} shards` : "";
    this.said.textContent = `${shown}${where}.`;
    const rows = groups.map((each) => [
      el("a", { href: groupPage(each.group_id) }, each.group_id || "(empty name)"),
      each.kind,
      el("span", { class: `state ${each.state === "Stable" ? "good" : ["Empty", "Dead"].includes(each.state) ? "" : "warn"}` }, each.state),
      each.generation, each.member_count, each.lag?.toLocaleString("en") ?? (each.offset_count ? "unknown" : "none"),
      each.last_rebalance ? `${ago(each.last_rebalance.started_ms)}: ${each.last_rebalance.cause}` : "",
    ]);
    const heads = ["group", "kind", "state", "epoch", "members", "lag", "last rebalance, and why"];
    refill(this.body, groups.length ? table("Groups", heads, rows, [3, 4, 5]) : null);
  }
}

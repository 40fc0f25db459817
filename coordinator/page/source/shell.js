// What every view has on top: where one can go, which server this is and how it is, and whether it can be reached.

import { get, onReach, repeat } from "./api.js";
import { el, replace } from "./dom.js";
import { clockTime } from "./words.js";

const EVERY_MS = 2000;
const ALWAYS = ["overview", "groups", "topics", "events", "faults"];

export class Shell {
  // `view`: the one that is shown.
  constructor(view) {
    this.view = view;
    this.watchers = [];
    this.links = el("nav", { "aria-label": "Views" });
    this.server = el("p", { class: "server" }, " ");
    this.reach = el("p", { class: "reach", role: "alert" });
    this.reach.hidden = true;
    document.body.prepend(el("header", { class: "top" }, el("div", { class: "bar" },
      el("a", { class: "brand", href: "/", "aria-label": "coordinator: the overview" }, el("span", { class: "mark", "aria-hidden": "true" }), "coordinator"),
      this.links, this.server), this.reach));
    this.showLinks(ALWAYS);
    onReach((lostMs) => {
      this.reach.hidden = lostMs === null;
      if (lostMs !== null) this.reach.textContent = `The server cannot be reached since ${clockTime(lostMs).slice(0, 8)} UTC; trying again. What is shown is from before.`;
    });
    repeat(() => this.refresh(), EVERY_MS);
  }

  // Calls `act(overview)` with every answer of `/v1/overview`, and `act(null)` where there is none.
  watch(act) {
    this.watchers.push(act);
  }

  async refresh() {
    let overview = null;
    try {
      overview = await get("/v1/overview");
    } catch (error) {
      if (error.status === undefined) return;
    }
    if (overview) {
      const isReady = overview.status === "ready";
      replace(this.server, el("span", { class: `dot ${isReady ? "good" : "bad"}`, title: overview.status }), ` ${overview.status ?? "unknown"} · ${overview.addresses?.[0] ?? ""}`);
      this.showLinks([...ALWAYS, overview.workers ? "workers" : null, overview.brokers ? "brokers" : null].filter(Boolean));
    }
    for (const each of this.watchers) each(overview);
  }

  showLinks(names) {
    const shown = names.includes(this.view) ? names : [...names, this.view];
    if (shown.join() === this.shown) return;
    this.shown = shown.join();
    replace(this.links, shown.map((each) => el("a", { href: each === "overview" ? "/" : `/?view=${each}`, "aria-current": each === this.view ? "page" : null },
      each[0].toUpperCase() + each.slice(1))));
  }
}

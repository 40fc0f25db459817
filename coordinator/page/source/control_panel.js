// The drawer of one group: each command with what it will do; faults and the clock. Without control only the forced rebalance is there.

import { groupPath, request } from "./api.js";
import { ClockPanel } from "./clock_panel.js";
import { el } from "./dom.js";
import { FaultPanel } from "./fault_panel.js";
import { exactly } from "./words.js";

export class ControlPanel {
  constructor(group, changed) {
    this.group = group;
    this.changed = changed;
    this.said = el("p", { role: "status", class: "said" });
    this.reason = el("input", { type: "text", id: "reason", value: "asked for on the page", maxlength: 200 });
    this.loadingMs = el("input", { type: "number", id: "loading", value: 0, min: 0, max: 600000 });
    this.faults = new FaultPanel({ group: exactly(group) }, changed);
    this.clock = new ClockPanel((work) => this.act(work));
    this.needsControl = el("div", {},
      this.command("Bump epoch", "Raises the generation or group epoch by one; the members stay. What they send with the old one is refused.", () => this.post("/bump-epoch", {})),
      this.command("Expire offsets", "Deletes offsets as if their retention had passed.", () => this.post("/offsets/expire", {})),
      this.command("Reload", "A failover: the shard of the group, with its other groups, discards its memory and loads its log.",
        () => this.post("/reload", { for_ms: Number(this.loadingMs.value) }), el("label", { for: "loading" }, "loading for (ms)"), this.loadingMs));
    this.time = el("section", { "aria-label": "Clock" }, el("h3", {}, "Clock"), el("p", { class: "about" },
      "The timers of all groups go by it: sessions, rebalance timeouts, delays."), this.clock.element);
    this.close = el("button", { type: "button", onclick: () => this.toggle(false) }, "Close");
    this.opener = el("button", { type: "button", "aria-expanded": "false", "aria-controls": "drawer", onclick: () => this.toggle(this.element.hidden) }, "Control");
    this.element = el("aside", { class: "drawer", id: "drawer", "aria-label": "Control", tabindex: -1, onkeydown: (event) => (event.key === "Escape" ? this.toggle(false) : null) },
      el("div", { class: "tools drawer-head" }, el("h2", {}, "Control"), this.close), this.said,
      this.command("Rebalance", "Makes every member join, or reconcile, again. Running consumers stop for the time of one rebalance.",
        () => this.post("/rebalance", { reason: this.reason.value }), el("label", { for: "reason" }, "reason"), this.reason),
      this.needsControl, el("section", { "aria-label": "Faults" }, el("h3", {}, "Faults of this group"), this.faults.element), this.time);
    this.element.hidden = this.needsControl.hidden = this.time.hidden = true;
  }

  toggle(isOpen) {
    this.element.hidden = !isOpen;
    this.opener.setAttribute("aria-expanded", String(isOpen));
    (isOpen ? this.element : this.opener).focus();
  }

  command(name, about, act, ...fields) {
    return el("div", { class: "command" }, el("div", { class: "tools" }, this.button(name, act), fields), el("p", { class: "about" }, about));
  }

  button(text, act, about = null, title = null) {
    return el("button", { type: "button", "aria-label": about, title, onclick: () => this.act(async () => describeOutcome(text, await act())) }, text);
  }

  // Does something and says how it went.
  async act(work) {
    try {
      this.said.classList.remove("bad");
      this.said.textContent = await work();
    } catch (error) {
      this.said.classList.add("bad");
      this.said.textContent = error.message;
    }
    await this.refresh();
    this.changed();
  }

  post(rest, body) {
    return request("POST", groupPath(this.group, rest), body);
  }

  memberButtons(member) {
    if (!this.faults.isOn) return "";
    const path = `/members/${encodeURIComponent(member.member_id)}`;
    return el("span", { class: "tools" },
      this.button("Evict", () => this.post(`${path}/evict`, { reason: this.reason.value }), `Evict ${member.member_id}`, "Removes the member as an administrator does; the group rebalances."),
      this.button("Expire session", () => this.post(`${path}/expire-session`, {}), `Expire session of ${member.member_id}`, "Removes the member as its session timeout does; the group rebalances."));
  }

  show(view) {
    this.faults.form.showMembers(view.members ?? []);
    this.refresh();
  }

  async refresh() {
    await this.faults.refresh();
    this.needsControl.hidden = this.time.hidden = !this.faults.isOn;
    if (this.faults.isOn) await this.clock.refresh();
  }
}

function describeOutcome(name, answer) {
  const facts = Object.entries(answer ?? {}).filter(([, value]) => typeof value !== "object");
  return `${name}: ${facts.map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`).join(", ") || "done"}`;
}

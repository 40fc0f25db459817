// What section 2 of control offers for one group: acting on it, faults, the clock. Without control only the forced rebalance is there.

import { get, groupPath, query, request } from "./api.js";
import { ClockPanel } from "./clock_panel.js";
import { el, table } from "./dom.js";
import { FaultForm } from "./fault_form.js";
import { refill } from "./refill.js";
import { action, exactly } from "./words.js";

export const SCOPE = "page";

export class ControlPanel {
  constructor(group, changed) {
    this.group = group;
    this.changed = changed;
    this.isOn = null; // null: not known yet
    this.said = el("p", { role: "status", class: "said" });
    this.off = el("p", { class: "note", hidden: true });
    this.reason = el("input", { type: "text", id: "reason", value: "asked for on the page", maxlength: 200 });
    this.loadingMs = el("input", { type: "number", id: "loading", value: 0, min: 0, max: 600000 });
    this.faults = el("div");
    this.form = new FaultForm((rule) => this.addFault(rule));
    this.clock = new ClockPanel((work) => this.act(work));
    this.needsControl = el("div", { hidden: true },
      el("div", { class: "tools" },
        this.button("Bump epoch", () => this.post("/bump-epoch", {})), this.button("Expire offsets", () => this.post("/offsets/expire", {})),
        this.button("Reload", () => this.post("/reload", { for_ms: Number(this.loadingMs.value) })),
        el("label", { for: "loading" }, "loading for (ms)"), this.loadingMs),
      el("h3", {}, "Faults"), this.form.element, this.faults, el("h3", {}, "Clock"), this.clock.element);
    this.element = el("div", { class: "control" }, this.said,
      el("div", { class: "tools" }, this.button("Rebalance", () => this.post("/rebalance", { reason: this.reason.value })),
        el("label", { for: "reason" }, "reason"), this.reason),
      this.off, this.needsControl);
  }

  button(text, act, about = null) {
    return el("button", { type: "button", "aria-label": about, onclick: () => this.act(async () => describeOutcome(text, await act())) }, text);
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
    if (!this.isOn) return "";
    const path = `/members/${encodeURIComponent(member.member_id)}`;
    return el("span", { class: "tools" },
      this.button("Evict", () => this.post(`${path}/evict`, { reason: this.reason.value }), `Evict ${member.member_id}`),
      this.button("Expire session", () => this.post(`${path}/expire-session`, {}), `Expire session of ${member.member_id}`));
  }

  show(view) {
    this.form.showMembers(view.members ?? []);
    this.refresh();
  }

  async refresh() {
    try {
      const { faults } = await get("/v1/faults");
      this.setOn(true);
      this.showFaults(faults);
    } catch (error) {
      this.setOn(false);
      this.off.textContent = error.status === 403 ? `Faults, time and the other commands are off: ${error.message}` : error.message;
    }
    if (this.isOn) await this.clock.refresh();
  }

  setOn(isOn) {
    this.isOn = isOn;
    this.needsControl.hidden = !isOn;
    this.off.hidden = isOn;
  }

  async addFault(rule) {
    await this.act(async () => {
      const fault = await request("POST", "/v1/faults", { ...rule, match: { ...rule.match, group: exactly(this.group) }, scope: SCOPE });
      return `Fault ${fault.id} is set.`;
    });
  }

  showFaults(faults) {
    const rows = faults.map((each) => [each.id, matchText(each.rule.match), action(each.rule.action), each.matched, each.acted, each.held,
      each.active ? "active" : "over", el("span", { class: "tools" },
        each.held ? this.button("Release", () => request("POST", `/v1/faults/${each.id}/release`, {}), `Release ${each.id}`) : null,
        this.button("Clear", () => request("DELETE", `/v1/faults/${each.id}`), `Clear ${each.id}`))]);
    const clear = this.button("Clear the faults set here", () => request("DELETE", query("/v1/faults", { scope: SCOPE })));
    refill(this.faults, rows.length ? table("Faults", ["id", "match", "action", "matched", "acted", "held", "", ""], rows, [3, 4, 5])
      : el("p", { class: "nothing" }, "No fault is set."), rows.length ? clear : null);
  }
}

const matchText = (match) => Object.entries(match ?? {}).map(([key, value]) => `${key} ${value}`).join(", ") || "everything";

function describeOutcome(name, answer) {
  const facts = Object.entries(answer ?? {}).filter(([, value]) => typeof value !== "object");
  return `${name}: ${facts.map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`).join(", ") || "done"}`;
}

// Fault rules: a form to set one, and the list of all of them. A group's page sets them for its group alone.

import { get, query, request } from "./api.js";
import { el, table } from "./dom.js";
import { FaultForm } from "./fault_form.js";
import { refill } from "./refill.js";
import { action, matchWords } from "./words.js";

export const SCOPE = "page";

export class FaultPanel {
  // `match`: fields that every rule set here gets. `changed()` is called when a rule was set or cleared.
  constructor(match, changed = () => {}) {
    this.match = match;
    this.changed = changed;
    this.isOn = null; // null: not known yet
    this.said = el("p", { role: "status", class: "said" }, " ");
    this.off = el("p", { class: "note" });
    this.off.hidden = true;
    this.list = el("div");
    this.form = new FaultForm((rule) => this.add(rule), { hasGroup: match.group !== undefined });
    this.form.element.hidden = true;
    this.element = el("div", {}, this.off, this.form.element, this.said, this.list);
  }

  button(text, about, act) {
    return el("button", { type: "button", "aria-label": about, onclick: () => this.act(act) }, text);
  }

  async act(work) {
    this.said.classList.remove("bad");
    try {
      const answer = await work();
      this.said.textContent = typeof answer === "string" ? answer : answer.released === undefined ? `Cleared: ${answer.cleared}` : `Released: ${answer.released}`;
    } catch (error) {
      this.said.classList.add("bad");
      this.said.textContent = error.message;
    }
    await this.refresh();
    this.changed();
  }

  add(rule) {
    return this.act(async () => {
      const fault = await request("POST", "/v1/faults", { ...rule, match: { ...rule.match, ...this.match }, scope: SCOPE });
      return `Fault ${fault.id} is set.${fault.notice ? ` ${fault.notice}` : ""}`;
    });
  }

  async refresh() {
    try {
      const { faults } = await get("/v1/faults");
      this.setOn(true);
      this.show(faults);
    } catch (error) {
      this.setOn(false);
      this.off.textContent = error.status === 403 ? `Faults, time and the other commands are off: ${error.message}`
        : error.status === 404 ? "This server has no fault rules." : error.message;
      refill(this.list);
    }
  }

  setOn(isOn) {
    this.isOn = isOn;
    this.form.element.hidden = !isOn;
    this.off.hidden = isOn;
  }

  show(faults) {
    const rows = faults.map((each) => [each.id, el("span", {}, matchWords(each.rule.match)), action(each.rule.action), action(each.rule.extent ?? {}) || "once", each.rule.scope ?? "",
      each.matched, each.acted, each.held, each.active ? "active" : "over", el("span", { class: "tools" },
        each.held ? this.button("Release", `Release ${each.id}`, () => request("POST", `/v1/faults/${each.id}/release`, {})) : null,
        this.button("Clear", `Clear ${each.id}`, () => request("DELETE", `/v1/faults/${each.id}`)))]);
    const clear = this.button("Clear the faults set here", null, () => request("DELETE", query("/v1/faults", { scope: SCOPE })));
    refill(this.list, rows.length ? table("Fault rules", ["id", "requests", "what happens", "how often", "scope", "matched", "acted", "held", "state", "actions"], rows, [5, 6, 7], "faults")
      : el("p", { class: "nothing" }, "No fault is set."), rows.length ? clear : null);
  }
}

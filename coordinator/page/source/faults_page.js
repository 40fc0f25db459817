// All fault rules, whoever set them: what they match, under which conditions, what they do, and how often they did.

import { repeat } from "./api.js";
import { el, replace } from "./dom.js";
import { FaultPanel } from "./fault_panel.js";

const EVERY_MS = 2000;

export class FaultsPage {
  constructor(root) {
    const panel = new FaultPanel({});
    replace(root, el("h1", {}, "Faults"), el("p", { class: "about" }, "A rule lets requests fail, wait or get lost. Of several that match, the one that was set first acts."), panel.element);
    repeat(() => panel.refresh(), EVERY_MS);
  }
}

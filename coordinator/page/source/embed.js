// Draws the timelines of a document that was written once (coordinator/page/timeline.py): the data is in a script element.

import { buildModel } from "./model.js";
import { Timeline } from "./timeline.js";

for (const root of document.querySelectorAll(".timeline[data-timeline]")) {
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const timeline = new Timeline(root);
  timeline.show(buildModel(data.events, data));
  root.timeline = timeline;
}

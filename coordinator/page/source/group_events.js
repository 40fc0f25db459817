// The events of a group: those in the log, in pages, and then each as it happens.

import { get, query } from "./api.js";

const PAGE = 1000;
export const KEPT_MAX = 20_000;
const SHOW_EVERY_MS = 250;

export class GroupEvents {
  // `changed(events)` is called when there are more, at most four times a second; `said(text)` with how it goes.
  constructor(group, changed, said) {
    this.group = group;
    this.changed = changed;
    this.said = said;
    this.events = [];
    this.timer = null;
  }

  async start() {
    let after = null;
    for (;;) {
      const page = await get(query("/v1/events/page", { group: this.group, after, limit: PAGE }));
      this.add(page.events);
      after = page.next;
      if (page.at_end) break;
      this.said(`${this.events.length.toLocaleString("en")} events read`);
    }
    this.flush();
    this.follow(after);
  }

  follow(after) {
    this.source = new EventSource(query("/v1/events", { group: this.group, after, follow: "true" }));
    this.source.onopen = () => this.said("following live");
    this.source.onerror = () => this.said("the server cannot be reached; trying again");
    this.source.addEventListener("end", (message) => this.said(`${JSON.parse(message.data).reason}; trying again`));
    this.source.onmessage = (message) => {
      this.add([JSON.parse(message.data)]);
      this.timer ??= setTimeout(() => this.flush(), SHOW_EVERY_MS);
    };
  }

  add(events) {
    this.events.push(...events);
    if (this.events.length > KEPT_MAX * 1.1) this.events.splice(0, this.events.length - KEPT_MAX);
  }

  flush() {
    this.timer = null;
    this.changed(this.events);
  }
}

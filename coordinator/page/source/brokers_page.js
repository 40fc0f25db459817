// The brokers of a server that is several: whether each is up, and what it leads. Control takes one down and brings it up.

import { get, repeat, request } from "./api.js";
import { el, replace, table } from "./dom.js";
import { refill } from "./refill.js";

const EVERY_MS = 2000;

export class BrokersPage {
  constructor(root, shell) {
    this.said = el("p", { role: "status", class: "said" }, " ");
    this.body = el("div");
    this.hasControl = false;
    shell.watch((overview) => (this.hasControl = overview?.control ?? false));
    replace(root, el("h1", {}, "Brokers"), this.said, this.body);
    repeat(() => this.refresh(), EVERY_MS);
  }

  async refresh() {
    try {
      const { brokers } = await get("/v1/brokers");
      const rows = brokers.map((each) => [each.id, el("span", { class: each.up ? "good" : "bad" }, each.up ? "up" : "down"), each.controller ? "controller" : "",
        each.leads, each.rack ?? "", each.addresses.join(", "), this.hasControl ? this.button(each) : "control is off"]);
      refill(this.body, rows.length ? table("All brokers", ["broker", "state", "role", "leads", "rack", "addresses", "actions"], rows, [0, 3])
        : el("p", { class: "nothing" }, "The server is one broker."));
    } catch (error) {
      this.said.textContent = error.status === 404 ? "This server does not say what brokers it has." : error.message;
    }
  }

  button({ id, up }) {
    const act = async () => {
      try {
        await request("POST", `/v1/brokers/${id}/${up ? "down" : "up"}`);
        this.said.textContent = `Broker ${id} is ${up ? "down" : "up"}.`;
      } catch (error) {
        this.said.textContent = error.message;
      }
      await this.refresh();
    };
    return el("button", { type: "button", "aria-label": `${up ? "Take down" : "Bring up"} broker ${id}`, onclick: act,
      title: up ? "Ends it as a crash does: its connections close, and other brokers lead what it led." : "It listens again; leaders stay where they are." },
    up ? "Take down" : "Bring up");
  }
}

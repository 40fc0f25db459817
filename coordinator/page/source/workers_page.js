// The workers of a server that is several: who has which shard, how many shards each took over, and what that cost.

import { get, repeat } from "./api.js";
import { el, replace, table } from "./dom.js";
import { refill } from "./refill.js";
import { count, duration, ranges } from "./words.js";

const EVERY_MS = 2000;

export class WorkersPage {
  constructor(root) {
    this.said = el("p", { role: "status", class: "key" }, "…");
    this.body = el("div");
    replace(root, el("h1", {}, "Workers"), this.said, this.body);
    repeat(() => this.refresh(), EVERY_MS);
  }

  async refresh() {
    try {
      this.show(await get("/v1/workers"));
    } catch (error) {
      this.said.textContent = error.status === 404 ? "This server has no workers." : `${error.message}; trying again`;
    }
  }

  show({ workers, not_served: lost }) {
    this.said.textContent = workers.length ? `${count(workers.length, "worker")}.` : "The server works alone: it has all shards.";
    const known = (value, text = (each) => each.toLocaleString("en")) => (value === null || value === undefined ? "unknown" : text(value));
    const rows = workers.map((each) => [each.number, each.pid ?? "none", el("span", { class: each.ready ? "good" : "bad" }, each.leaving ? "gives its shards away" : each.ready ? "serves" : "does not answer"),
      shards(each.shards, "__consumer_offsets"), shards(each.shards, "__transaction_state"), known(each.take_overs),
      each.take_over_ms === null ? "none" : known(each.take_over_ms, duration), known(each.records_replayed),
      known(each.shards_replaying, (number) => (number ? el("span", { class: "warn" }, `${count(number, "shard")}, ${count(each.pieces_to_replay, "piece")} behind`) : "none"))]);
    refill(this.body, lost.length ? el("p", { class: "verdict alarmed" }, `No worker has ${lost.join(", ")}.`) : null,
      rows.length ? table("All workers", ["worker", "pid", "state", "shards of groups", "shards of transactions", "take-overs", "mean time of one", "records replayed", "replays now"], rows, [0, 1, 5, 6, 7]) : null);
  }
}

function shards(logs, topic) {
  const numbers = logs.filter((each) => each.startsWith(`${topic}-`)).map((each) => Number(each.slice(topic.length + 1)));
  return numbers.length ? ranges(numbers) : "none";
}

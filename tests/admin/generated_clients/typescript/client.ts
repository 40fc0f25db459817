// A test in TypeScript, as the author of a client would write it: it uses the client that openapi-ts generates from the OpenAPI
// document.
//
// It sets a fault rule, prints its id, waits for the rule, reads the clock and streams events until it has seen the rule act. The
// last line that it prints is what it found, as JSON. A failure ends it with an error.
import { client } from "./generated/client.gen.js";
import { createFault, getClock, getFault, streamEvents } from "./generated/sdk.gen.js";
import type { Event, Rule } from "./generated/types.gen.js";

client.setConfig({ baseUrl: process.argv[2]! });

const rule: Rule = { match: { api: "Heartbeat" }, action: { error: "REBALANCE_IN_PROGRESS" } };
const made = await createFault({ body: rule, throwOnError: true });
console.log(made.data.id);

const status = await getFault({
  path: { fault_id: made.data.id }, query: { until: "acted:1", timeout_ms: 60_000 }, throwOnError: true,
});
const clock = await getClock({ throwOnError: true });
const unknown = await getFault({ path: { fault_id: "f999" } });

async function faultThatActed(): Promise<string> {
  const { stream } = await streamEvents();
  for await (const event of stream as AsyncIterable<Event & { fault?: string }>) {
    if (event.type === "FaultActed") return event.fault!;
  }
  throw new Error("the stream has ended");
}

console.log(JSON.stringify({
  location: made.response.headers.get("Location"),
  reached: status.data.reached,
  wall_ms: Number(clock.data.wall_ms),
  fault: await faultThatActed(),
  refusal: unknown.error!.detail,
}));

// Requests to the admin address that the page came from.

export class Refused extends Error {
  constructor(status, { detail, allowed } = {}) {
    super(`${detail ?? `the server answered with status ${status}`}${allowed ? ` (allowed: ${allowed.join(", ")})` : ""}`);
    this.status = status;
  }
}

let lostMs = null;
const reachers = [];

// Calls `act(ms)` when the server cannot be reached, with the time since when, and `act(null)` when it can again.
export const onReach = (act) => reachers.push(act);

export function reached(isReached) {
  if (isReached === (lostMs === null)) return;
  lostMs = isReached ? null : Date.now();
  for (const each of reachers) each(lostMs);
}

export async function request(method, path, body) {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    reached(false);
    throw new Error("the server cannot be reached", { cause: error });
  }
  reached(true);
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, value);
  return value;
}

export const get = (path) => request("GET", path);

export function query(path, fields) {
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const groupPath = (group, rest = "") => `/v1/groups/${encodeURIComponent(group)}${rest}`;
export const groupPage = (group, moment = null) => query("/", { group, moment });
export const topicPath = (topic, rest = "") => `/v1/topics/${encodeURIComponent(topic)}${rest}`;

// Calls `act` now and then every so many milliseconds while the page is visible, one call at a time; returns what stops it.
export function repeat(act, everyMs) {
  let isStopped = false;
  let timer = null;
  const turn = async () => {
    if (!document.hidden) await act();
    if (!isStopped) timer = setTimeout(turn, everyMs);
  };
  turn();
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}

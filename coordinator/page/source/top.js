// The first line of every page: where one can go, and which server this is.

import { get } from "./api.js";
import { el } from "./dom.js";

export function top() {
  const about = el("span", { class: "key" });
  get("/").then(
    (server) => (about.textContent = `${server.addresses.join(", ")}, version ${server.version}`),
    (error) => (about.textContent = error.message),
  );
  return el("nav", { class: "up tools", "aria-label": "Pages" }, el("a", { href: "/" }, "Groups"), el("a", { href: "/?view=topics" }, "Topics"), about);
}

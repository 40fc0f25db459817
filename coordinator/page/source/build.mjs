// Bundles the page and the timeline, with what they import from packages, into ../static/. The files that are built begin with the
// checksum of all sources, so that a test sees when they are not built again after a change.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const sources = [...readdirSync(here).filter((name) => /\.(js|mjs|json|css)$/.test(name)).sort(), "../palette.json"];
const digest = createHash("sha256");
for (const name of sources) digest.update(`${name.replace("../", "")}\0`).update(readFileSync(here + name)).update("\0");

for (const [entry, output, about] of [
  ["embed.js", "timeline.js", "Contains d3-time 3.1.1, d3-time-format 4.1.1, d3-array 3.2.5, internmap 2.0.3 (ISC, Mike Bostock); see LICENSES.txt."],
  ["main.js", "page.js", "Contains d3-time 3.1.1, d3-time-format 4.1.1, d3-array 3.2.5, internmap 2.0.3 (ISC, Mike Bostock), uPlot 1.6.32 (MIT, Leon Sorokin); see LICENSES.txt."],
]) {
  const found = await build({ entryPoints: [here + entry], bundle: true, minify: true, format: "iife", target: "es2022", write: false, charset: "ascii" });
  const head = `/* Built from coordinator/page/source (sha256 ${digest.copy().digest("hex")}). ${about} */\n`;
  writeFileSync(`${here}../static/${output}`, head + found.outputFiles[0].text);
}

const sheet = readFileSync(here + "node_modules/uplot/dist/uPlot.min.css", "utf-8").trim();
writeFileSync(`${here}../static/page.css`, `${readFileSync(here + "page.css", "utf-8")}/* uPlot 1.6.32, MIT, Leon Sorokin */\n${sheet}\n`);

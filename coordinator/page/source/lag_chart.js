// Records behind the committed offsets, since the page was opened: a server keeps no history of it.

import uPlot from "uplot";
import { el, replace } from "./dom.js";
import { clockTime } from "./words.js";

const KEPT_MAX = 3600;
const HEIGHT = 150;
const SPAN_MIN_S = 60;

export class LagChart {
  constructor(root) {
    this.root = el("div", { class: "lag", role: "img" });
    this.text = el("p", { class: "key" });
    this.data = [[], [], []];
    this.most = 0;
    replace(root, this.root, this.text);
    new ResizeObserver(() => this.chart?.setSize({ width: this.root.clientWidth, height: HEIGHT })).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // `offsets`: how many the group has committed. `inFlight`: of a share group, its records in flight; null: it is another.
  add(time, lag, offsets, inFlight = null) {
    this.data[0].push(time / 1000);
    this.data[1].push(lag);
    this.data[2].push(inFlight?.records ?? null);
    for (const each of this.data) if (each.length > KEPT_MAX) each.shift();
    this.most = Math.max(this.most, lag ?? 0);
    const text = inFlight ? sharedText(lag, inFlight.records) : lag === null ? offsets ? "The lag is unknown: this server does not have the topics of the offsets." : "The group has committed nothing."
      : `Lag now ${lag.toLocaleString("en")}; highest since this page was opened ${this.most.toLocaleString("en")}.`;
    this.text.textContent = text;
    this.root.setAttribute("aria-label", text);
    if (this.chart) this.chart.setData(this.data);
    else this.draw();
  }

  draw() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    this.chart?.destroy();
    this.chart = new uPlot({
      width: this.root.clientWidth, height: HEIGHT, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: { x: { range: (_, low, high) => [low, Math.max(high, low + SPAN_MIN_S)] }, y: { range: (_, low, high) => [0, Math.max(high ?? 1, 1)] } },
      axes: [{ ...axis, space: 90, values: (_, values) => values.map((each) => clockTime(each * 1000).slice(0, 8)) }, { ...axis, size: 70, values: (_, values) => values.map((each) => each.toLocaleString("en")) }],
      series: [{}, { label: "lag", stroke: colour("link"), width: 2, fill: `${colour("link")}22` }, { label: "in flight", stroke: colour("ink"), width: 2, dash: [6, 4] }],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    }, this.data, this.root);
  }
}

const sharedText = (lag, records) => `Lag now ${lag?.toLocaleString("en") ?? "unknown"}. `
  + (records === null ? "No member reads, so nothing is in flight." : `In flight now, the dashed line: ${records.toLocaleString("en")}.`);

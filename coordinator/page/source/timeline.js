// The timeline of a group: a canvas that zooms and pans, its legend, the selected record, and all events as a table.

import { drawGlyphs, draw, firstFrom, themeOf, timeAt, xOf, yOf } from "./draw.js";
import { CAUSES, COLOURED_MAX, swatch } from "./colours.js";
import { Detail } from "./detail.js";
import { el, replace } from "./dom.js";
import { EventTable } from "./event_table.js";
import { Gestures } from "./gestures.js";
import { layOut, linesWithin, ROW, rowsInOrder } from "./layout.js";
import { buildModel, describe } from "./model.js";
import * as views from "./view.js";
import { clockTime, sentence } from "./words.js";

let helps = 0;
const NARROW = 640;
const HEIGHT_MIN = 280;
const PRINTED_MAX = 4000;
const NEAR_PX = 8;
const PRINT_THEME = { ink: "#1d2733", soft: "#55626f", line: "#dfe4ea", back: "#fff", tint: "#f4f6f8", band: "#f6e3d5", link: "#2457a6" };
const GLYPHS = { accepted: "commit accepted", refused: "commit or request refused", unowned: "accepted from a member that did not own the partition",
  joined: "joined", left: "left", expired: "removed by a timeout", replaced: "replaced by its instance id", fault: "fault acted", notice: "server or group notice" };
const HELP = "Arrow keys left and right go from record to record, up and down from row to row; Shift with left or right pans; "
  + "plus and minus zoom; 0 shows the whole time; Enter goes to the details.";

export class Timeline {
  // `isLive`: whether there is something to follow. `inspect(event)`: more about an event, as a promise of an element or null.
  // `linkTo(event, time)`: the address at which somebody else sees the same moment.
  constructor(root, { isLive = false, inspect = null, linkTo = null } = {}) {
    this.root = root;
    this.helpId = `tl-help-${(helps += 1)}`;
    this.isFollowing = isLive;
    this.view = null;
    this.selected = null;
    this.isDrawn = true;
    this.build(isLive, inspect, linkTo);
    this.show(buildModel([]));
    this.gestures = new Gestures(this);
    new ResizeObserver(() => this.resize()).observe(this.scroll);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  build(isLive, inspect, linkTo) {
    const button = (text, about, act) => el("button", { type: "button", title: about, "aria-label": about, onclick: act }, text);
    this.follow = isLive ? button("Follow live", "Follow live", () => this.setFollowing(!this.isFollowing)) : null;
    this.follow?.setAttribute("aria-pressed", String(this.isFollowing));
    this.filter = el("input", { type: "search", placeholder: "partition, client or member", "aria-label": "Show only rows with this text",
      oninput: () => this.relayout() });
    this.offset = el("input", { type: "number", min: 0, placeholder: "log offset", "aria-label": "Go to a log offset",
      onchange: () => this.selectOffset(Number(this.offset.value)) });
    this.scrub = el("input", { type: "range", class: "tl-scrub", min: 0, value: 0, "aria-label": "Go through the records in the order of the log",
      oninput: () => this.selectEvent(this.model.events[Number(this.scrub.value)]) });
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.space = el("div");
    this.scroll = el("div", { class: "tl-scroll", tabindex: 0, role: "application", "aria-roledescription": "timeline",
      "aria-label": "Timeline of the group", "aria-describedby": this.helpId }, this.canvas, this.space);
    this.tip = el("div", { class: "tl-tip", "aria-hidden": "true", hidden: true });
    this.said = el("p", { class: "tl-said", role: "status", "aria-live": "polite" });
    this.legend = el("div", { class: "tl-legend" });
    this.detail = new Detail(inspect, (item) => this.step(item), linkTo);
    this.table = new EventTable((event) => this.selectEvent(event));
    this.scroll.addEventListener("scroll", () => this.schedule());
    replace(this.root,
      el("div", { class: "tl-tools", role: "toolbar", "aria-label": "Timeline" },
        button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)),
        button("Whole time", "Show the whole time", () => this.fit()), this.follow, this.filter, this.offset),
      el("div", { class: "tl-body" },
        el("div", { class: "tl-main" }, el("div", { class: "tl-frame" }, this.scroll, this.tip), this.scrub), this.detail.element),
      this.said, this.legend, el("p", { class: "tl-help", id: this.helpId }, HELP), this.table.element);
  }

  show(model) {
    const wasEmpty = this.model?.isEmpty ?? true;
    this.model = model;
    this.bounds = { first: model.first, last: model.last };
    if (this.view === null || wasEmpty) this.view = views.fit(this.bounds);
    else if (this.isFollowing) this.view = views.followed(this.view, this.bounds);
    if (this.selected) this.selected = this.placeOf(this.selected.item.event) ?? null;
    this.drawLegend();
    this.table.show(model);
    this.scrub.max = Math.max(0, model.events.length - 1);
    this.scrub.disabled = !model.events.length;
    this.relayout();
  }

  relayout() {
    this.layout = layOut(this.model, this.filter.value);
    this.resize();
  }

  resize() {
    const height = this.layout.top + this.layout.height;
    this.width = Math.max(this.scroll.clientWidth, 200);
    this.height = Math.min(height, this.isPrinting ? PRINTED_MAX : Math.max(HEIGHT_MIN, Math.round(innerHeight * 0.62)));
    this.scroll.style.height = `${this.height}px`;
    this.space.style.height = `${Math.max(0, height - this.height)}px`;
    const scale = Math.max(devicePixelRatio || 1, this.isPrinting ? 2 : 1);
    Object.assign(this.canvas, { width: Math.round(this.width * scale), height: Math.round(this.height * scale) });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${this.height}px` });
    this.context = this.canvas.getContext("2d");
    this.context.scale(scale, scale);
    this.theme = this.isPrinting ? PRINT_THEME : themeOf(this.root);
    this.draw();
  }

  scene() {
    const gutter = this.width < NARROW ? 92 : 170;
    return { model: this.model, layout: this.layout, view: this.view, width: this.width, height: this.height, gutter,
      scroll: this.scroll.scrollTop, theme: this.theme, selected: this.selected, end: views.fit(this.bounds).to };
  }

  schedule() {
    if (!this.isDrawn) return;
    this.isDrawn = false;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.isDrawn = true;
    draw(this.context, this.scene());
  }

  print(isPrinting) {
    this.isPrinting = isPrinting;
    this.resize();
  }

  // --- moving -----------------------------------------------------------------------------------------------------------

  move(view) {
    this.view = view;
    this.schedule();
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    this.move(views.zoomed(this.view, factor, at, this.bounds));
  }

  panPixels(pixels) {
    const scene = this.scene();
    this.setFollowing(false);
    this.move(views.panned(this.view, (pixels / (scene.width - scene.gutter)) * (this.view.to - this.view.from), this.bounds));
  }

  fit() {
    this.move(views.fit(this.bounds));
  }

  setFollowing(isFollowing) {
    if (!this.follow || isFollowing === this.isFollowing) return;
    this.isFollowing = isFollowing;
    this.follow.setAttribute("aria-pressed", String(isFollowing));
    if (isFollowing) this.move(views.followed(this.view, this.bounds));
  }

  // --- selecting --------------------------------------------------------------------------------------------------------

  // The view stays with the record that is read: following ends.
  select(row, item) {
    this.selected = { row, item };
    this.setFollowing(false);
    const time = item.time ?? Math.max(item.from, this.bounds.first);
    if (time < this.view.from || time > this.view.to) {
      this.view = views.revealed(this.view, time, this.bounds);
    }
    this.scrollTo(row);
    this.said.textContent = `${clockTime(time)}, ${describe(this.model, row, item)}`;
    this.detail.show(this.model, row, item);
    this.showPosition(item.event);
    this.schedule();
  }

  showPosition(event) {
    const place = this.model.events.indexOf(event);
    if (place < 0) return;
    this.scrub.value = place;
    this.scrub.setAttribute("aria-valuetext", `offset ${event.offset ?? "unknown"}, ${clockTime(event.time_ms)}`);
    this.offset.value = event.offset ?? "";
  }

  clear() {
    this.selected = null;
    this.detail.clear();
    this.schedule();
  }

  scrollTo(row) {
    if (row.section === "top") return;
    const y = yOf(this.scene(), row);
    if (y === null) return;
    if (y < this.layout.top) this.scroll.scrollTop += y - this.layout.top - ROW;
    if (y + ROW > this.height) this.scroll.scrollTop += y + 2 * ROW - this.height;
  }

  selectEvent(event) {
    const place = this.placeOf(event);
    if (place) {
      this.select(place.row, place.item);
      return;
    }
    this.selected = null;
    this.setFollowing(false);
    this.view = views.revealed(this.view, event.time_ms, this.bounds);
    this.said.textContent = `${clockTime(event.time_ms)}, ${sentence(event, this.model.clients)}`;
    this.detail.show(this.model, null, { time: event.time_ms, event });
    this.showPosition(event);
    this.schedule();
  }

  // The record at a moment: an offset of the event log, or "t" and milliseconds.
  selectMoment(moment) {
    if (!moment.startsWith("t")) return this.selectOffset(Number(moment));
    const time = Number(moment.slice(1));
    const event = this.model.events.findLast((each) => each.time_ms <= time) ?? this.model.events[0];
    if (event) this.selectEvent(event);
  }

  // The record at an offset of the event log, or the last one before it.
  selectOffset(offset) {
    const event = this.model.events.findLast((each) => isNumber(each.offset) && each.offset <= offset) ?? this.model.events[0];
    if (event) this.selectEvent(event);
  }

  // The row and item of an event; marks before bars, because they say when.
  placeOf(event) {
    if (!event) return null;
    for (const list of ["marks", "bars"]) {
      for (const row of this.model.rows) {
        const item = row[list].find((each) => each.event === event || each.end === event);
        if (item) return { row, item };
      }
    }
    return null;
  }

  // The next record of the selected row, or that before.
  step(direction) {
    const row = this.selected?.row ?? rowsInOrder(this.layout)[1];
    const items = itemsOf(row);
    const place = this.selected ? items.indexOf(this.selected.item) + direction : this.firstVisible(items);
    if (items[place]) this.select(row, items[place]);
    else this.said.textContent = `No ${direction > 0 ? "later" : "earlier"} record in the row ${row.name}.`;
  }

  firstVisible(items) {
    return Math.max(0, items.findIndex((each) => timeOf(each) >= this.view.from));
  }

  // The record of another row that is nearest in time.
  stepRow(direction) {
    const rows = rowsInOrder(this.layout).filter((row) => row.bars.length + row.marks.length);
    const place = this.selected ? rows.indexOf(this.selected.row) + direction : 0;
    const row = rows[place];
    if (!row) return;
    const time = this.selected ? timeOf(this.selected.item) : this.view.from;
    const nearest = itemsOf(row).reduce((best, each) => (Math.abs(timeOf(each) - time) < Math.abs(timeOf(best) - time) ? each : best));
    this.select(row, nearest);
  }

  stepEnd(isLast) {
    const items = itemsOf(this.selected?.row ?? this.model.rows[1]);
    if (items.length) this.select(this.selected?.row ?? this.model.rows[1], items.at(isLast ? -1 : 0));
  }

  // What is at a point of the canvas: {row, item}, or null.
  at(x, y) {
    const scene = this.scene();
    const row = this.rowAt(y);
    if (!row || x < scene.gutter) return null;
    const slack = timeAt(scene, x + NEAR_PX) - timeAt(scene, x);
    const time = timeAt(scene, x);
    let best = null;
    for (let place = firstFrom(row.marks, time - slack); place < row.marks.length && row.marks[place].time <= time + slack; place += 1) {
      if (!best || Math.abs(row.marks[place].time - time) < Math.abs(best.time - time)) best = row.marks[place];
    }
    const isCommit = best?.glyph === "accepted" && Math.abs(xOf(scene, best.time) - x) > 3;
    const bar = row.bars.findLast((each) => each.from <= time + slack / 4 && (each.to ?? scene.end) >= time - slack / 4);
    const item = isCommit ? (bar ?? best) : (best ?? bar);
    return item ? { row, item } : null;
  }

  rowAt(y) {
    const fixed = this.layout.fixed.find((line) => y >= line.y && y < line.y + ROW);
    if (fixed || y < this.layout.top) return fixed?.row ?? null;
    const inside = y - this.layout.top + this.scroll.scrollTop;
    return linesWithin(this.layout, inside - ROW, inside + 1).find((line) => line.row && inside >= line.y && inside < line.y + ROW)?.row ?? null;
  }

  hover(x, y) {
    const found = x === null ? null : this.at(x, y);
    this.tip.hidden = !found;
    this.scroll.classList.toggle("tl-pointing", Boolean(found));
    if (!found) return;
    replace(this.tip, `${clockTime(Math.max(timeOf(found.item), this.bounds.first))}\n${describe(this.model, found.row, found.item)}`);
    const left = Math.min(x + 14, this.width - this.tip.offsetWidth - 4);
    Object.assign(this.tip.style, { left: `${Math.max(4, left)}px`, top: `${y + 18}px` });
  }

  drawLegend() {
    const glyphs = new Set(this.model.rows.flatMap((row) => row.marks.map((mark) => (mark.glyph === "fenced" ? "refused" : mark.glyph))));
    const kinds = new Set(this.model.rows[1].bars.map((bar) => bar.colour.cause));
    const key = JSON.stringify([this.model.legend, [...glyphs], [...kinds]]);
    if (key === this.legendKey) return;
    this.legendKey = key;
    const clients = this.model.legend.slice(0, COLOURED_MAX).map((each) =>
      el("span", {}, swatch(each), each.client_id || "no client id", each.host ? ` @ ${each.host.replace(/^\//, "")}` : ""));
    if (this.model.legend.length > COLOURED_MAX) clients.push(el("span", {}, swatch({ place: COLOURED_MAX }), "other clients (bars have labels)"));
    const marks = Object.entries(GLYPHS).filter(([glyph]) => glyphs.has(glyph)).map(([glyph, text]) => el("span", {}, this.glyph(glyph), text));
    replace(this.legend, el("details", { open: clients.length <= 12 }, el("summary", {}, `Clients (${clients.length})`), el("p", {}, clients)),
      el("p", {}, Object.keys(CAUSES).filter((kind) => kinds.has(kind)).map((kind) => el("span", {}, swatch({ cause: kind }), CAUSES[kind])), marks));
  }

  glyph(glyph) {
    const canvas = el("canvas", { width: 36, height: 36, class: "tl-swatch tl-glyph" });
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    drawGlyphs(context, themeOf(this.root), glyph, [9], 9);
    return canvas;
  }
}

const isNumber = (value) => typeof value === "number";

const timeOf = (item) => item.time ?? item.from;

const itemsOf = (row) => [...row.bars, ...row.marks].sort((a, b) => timeOf(a) - timeOf(b));

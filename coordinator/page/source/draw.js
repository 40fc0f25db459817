// Draws a timeline on a canvas: only what is visible, one path for marks of a kind, at most one mark of a kind per pixel.

import { utcTicks } from "d3-time";
import { utcFormat } from "d3-time-format";
import { fillOf, INK } from "./colours.js";
import { visible } from "./dom.js";
import { AXIS, BAR, linesWithin, ROW } from "./layout.js";
import { shortId } from "./words.js";

const FORMATS = [
  [1_000, utcFormat("%H:%M:%S.%L")],
  [60_000, utcFormat("%H:%M:%S")],
  [86_400_000, utcFormat("%H:%M")],
  [Infinity, utcFormat("%Y-%m-%d")],
];
const CHARACTER = 6; // pixels
const TICK_WIDTH = 110;
const FONT = "11px system-ui, -apple-system, 'Segoe UI', sans-serif";

export function themeOf(element) {
  const style = getComputedStyle(element);
  const names = ["ink", "soft", "line", "back", "tint", "bad", "band", "link", "warn"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// `scene`: {model, layout, view, width, height, gutter, scroll, theme, selected, end}; `end`: how far what goes on is drawn.
export function draw(context, scene) {
  const { width, height, theme, layout } = scene;
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = theme.back;
  context.fillRect(0, 0, width, height);
  drawBackground(context, scene);
  context.save();
  context.beginPath();
  context.rect(0, layout.top, width, height - layout.top);
  context.clip();
  for (const line of linesWithin(layout, scene.scroll, scene.scroll + height - layout.top)) {
    drawLine(context, scene, line, line.y + layout.top - scene.scroll);
  }
  context.restore();
  for (const line of layout.fixed) drawLine(context, scene, line, line.y);
  context.fillStyle = theme.line;
  context.fillRect(0, layout.top - 2, width, 1);
  drawSelection(context, scene);
}

export function xOf(scene, time) {
  const span = scene.view.to - scene.view.from;
  const inside = Math.min(Math.max(time, scene.view.from - span), scene.view.to + span);
  return scene.gutter + ((inside - scene.view.from) / span) * (scene.width - scene.gutter);
}

export function timeAt(scene, x) {
  return scene.view.from + ((x - scene.gutter) / (scene.width - scene.gutter)) * (scene.view.to - scene.view.from);
}

// The y of a row's line on the canvas; null if there is none.
export function yOf(scene, row) {
  const fixed = scene.layout.fixed.find((line) => line.row === row);
  if (fixed) return fixed.y;
  const line = scene.layout.lines.find((each) => each.row === row);
  return line ? line.y + scene.layout.top - scene.scroll : null;
}

function drawBackground(context, scene) {
  const { model, view, theme, height, width, gutter } = scene;
  const [epochs, rebalances] = model.rows;
  context.save();
  context.beginPath();
  context.rect(gutter, 0, width - gutter, height);
  context.clip();
  for (const [bars, colour] of [[epochs.bars.filter((bar) => bar.colour.band), theme.tint], [rebalances.bars, theme.band]]) {
    context.fillStyle = colour;
    for (const bar of bars) {
      const x = xOf(scene, bar.from);
      const to = xOf(scene, bar.to ?? scene.end);
      if (to >= gutter && x <= width) context.fillRect(x, AXIS, Math.max(to - x, 1), height);
    }
  }
  const ticks = utcTicks(new Date(view.from), new Date(view.to), Math.max(2, Math.floor((width - gutter) / TICK_WIDTH)));
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : view.to - view.from;
  const format = FORMATS.find(([below]) => step < below)[1];
  context.fillStyle = theme.line;
  for (const tick of ticks) context.fillRect(Math.round(xOf(scene, +tick)), AXIS - 4, 1, height);
  drawTimes(context, scene, ticks, format);
  context.restore();
}

// The times below the ticks. One that has no room at the edge is moved inside, unless it would meet another.
function drawTimes(context, scene, ticks, format) {
  const { gutter, width, theme } = scene;
  const times = ticks.map((tick) => {
    const text = format(tick);
    const x = Math.round(xOf(scene, +tick));
    const half = context.measureText(text).width / 2;
    const place = Math.min(Math.max(x, gutter + half), width - half);
    return { text, half, x: place, isMoved: place !== x };
  });
  const drawn = [];
  context.textAlign = "center";
  context.fillStyle = theme.soft;
  for (const time of [...times.filter((each) => !each.isMoved), ...times.filter((each) => each.isMoved)]) {
    if (drawn.some((other) => Math.abs(time.x - other.x) < time.half + other.half + CHARACTER)) continue;
    context.fillText(time.text, time.x, AXIS / 2 - 1);
    drawn.push(time);
  }
}

function drawLine(context, scene, line, y) {
  const { theme, gutter, width } = scene;
  context.textAlign = "left";
  if (line.heading) {
    context.fillStyle = theme.soft;
    context.font = `600 ${FONT}`;
    context.fillText(line.heading, 0, y + 15);
    context.font = FONT;
    return;
  }
  const { row } = line;
  context.fillStyle = theme.ink;
  context.textAlign = "right";
  context.fillText(shortened(nameOf(scene.model, row), (gutter - 8) / CHARACTER, true), gutter - 6, y + ROW / 2, gutter - 6);
  context.save();
  context.beginPath();
  context.rect(gutter, y, width - gutter, ROW);
  context.clip();
  row.bars.forEach((bar, place) => drawBar(context, scene, row, bar, y, row.bars[place + 1]));
  drawMarks(context, scene, row, y);
  context.restore();
}

export function nameOf(model, row) {
  const client = row.section === "members" ? model.clients.get(row.name) : null;
  return client?.client_id && !row.name.startsWith(client.client_id) ? `${client.client_id} ${shortId(row.name)}` : shortIfMember(row);
}

const shortIfMember = (row) => (row.section === "members" ? shortId(row.name) : row.name);

// A text of at most so many characters. `atStart`: it loses its beginning, because its end tells more.
function shortened(text, most, atStart = false) {
  const shown = visible(text);
  if (shown.length <= most) return shown;
  const keep = Math.max(0, Math.floor(most) - 1);
  return atStart ? `…${shown.slice(shown.length - keep)}` : `${shown.slice(0, keep)}…`;
}

// `next`: the bar that is drawn over the end of this one if they overlap, so that a text keeps clear of it.
function drawBar(context, scene, row, bar, y, next) {
  const { theme, gutter, width } = scene;
  const x = Math.max(xOf(scene, bar.from), gutter - 2);
  const to = Math.min(xOf(scene, bar.to ?? scene.end), width + 2);
  if (to < gutter || x > width) return;
  const long = Math.max(to - x, 1.5);
  const half = bar.half ? BAR / 2 : BAR;
  const top = y + (ROW - BAR) / 2 + (bar.half === "lower" ? half : 0);
  context.fillStyle = bar.colour.band !== undefined ? theme.line : fillOf(context, bar.colour);
  context.fillRect(x, top, long, half);
  context.fillStyle = theme.back;
  context.fillRect(x, top, 1, half);
  const room = next ? Math.min(long, xOf(scene, next.from) - x) : long;
  if (room > 34 && !bar.half) {
    context.fillStyle = bar.colour.band === undefined ? INK : theme.ink;
    context.textAlign = "left";
    const text = row.key === "epochs" && room > 80 ? `epoch ${bar.label}` : bar.label;
    context.fillText(shortened(text, (room - 6) / CHARACTER), x + 4, y + ROW / 2 + 0.5, room - 6);
  }
}

function drawMarks(context, scene, row, y) {
  const { view, width, gutter } = scene;
  const slack = (10 / (width - gutter)) * (view.to - view.from);
  const last = new Map();
  const byGlyph = new Map();
  for (let place = firstFrom(row.marks, view.from - slack); place < row.marks.length; place += 1) {
    const mark = row.marks[place];
    if (mark.time > view.to + slack) break;
    const x = Math.round(xOf(scene, mark.time));
    if (last.get(mark.glyph) === x) continue;
    last.set(mark.glyph, x);
    if (!byGlyph.has(mark.glyph)) byGlyph.set(mark.glyph, []);
    byGlyph.get(mark.glyph).push(x);
  }
  for (const [glyph, places] of byGlyph) drawGlyphs(context, scene.theme, glyph, places, y + ROW / 2);
}

// The place of the first mark at or after a time.
export function firstFrom(marks, time) {
  let [low, high] = [0, marks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (marks[middle].time < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const SHAPES = {
  accepted: (c, x, y) => c.rect(x - 0.5, y + 2, 1, BAR / 2 - 2),
  refused: (c, x, y) => ring(c, x, y, 4),
  unowned: (c, x, y) => cross(c, x, y, 4),
  joined: (c, x, y) => polygon(c, [x, y - 5, x + 6, y, x, y + 5]),
  left: (c, x, y) => polygon(c, [x, y - 5, x - 6, y, x, y + 5]),
  expired: (c, x, y) => cross(c, x, y, 4.5),
  replaced: (c, x, y) => polygon(c, [x - 4, y, x, y - 4, x + 4, y, x, y + 4]),
  fenced: (c, x, y) => ring(c, x, y, 4),
  fault: (c, x, y) => polygon(c, [x - 1, y - 6, x + 4, y - 6, x + 1, y - 1, x + 5, y - 1, x - 3, y + 7, x - 1, y + 1, x - 4, y + 1]),
  notice: (c, x, y) => c.rect(x - 3, y - 5, 6, 10),
};
const STROKED = new Set(["refused", "unowned", "expired", "fenced"]);
const BACKED = new Set(["refused", "unowned", "fault", "expired", "fenced"]);

export function drawGlyphs(context, theme, glyph, places, y) {
  const colours = { accepted: INK, refused: INK, unowned: "#b3261e", joined: INK, left: INK, expired: "#b3261e",
    replaced: INK, fenced: INK, fault: "#7b2cbf", notice: theme.link };
  context.beginPath();
  for (const x of places) {
    SHAPES[glyph](context, x, y);
  }
  if (BACKED.has(glyph)) {
    context.strokeStyle = "#ffffff";
    context.lineWidth = 5;
    context.lineJoin = "round";
    context.stroke();
  }
  context.lineWidth = 2;
  if (STROKED.has(glyph)) {
    context.strokeStyle = colours[glyph];
    context.stroke();
  } else {
    context.fillStyle = colours[glyph];
    context.fill();
  }
}

function ring(context, x, y, radius) {
  context.moveTo(x + radius, y);
  context.arc(x, y, radius, 0, Math.PI * 2);
}

function cross(context, x, y, size) {
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y + size);
  context.moveTo(x - size, y + size);
  context.lineTo(x + size, y - size);
}

function polygon(context, points) {
  context.moveTo(points[0], points[1]);
  for (let place = 2; place < points.length; place += 2) context.lineTo(points[place], points[place + 1]);
  context.closePath();
}

function drawSelection(context, scene) {
  const { selected, theme, gutter, width, height, layout } = scene;
  if (!selected) return;
  const y = yOf(scene, selected.row);
  if (y === null) return;
  const start = selected.item.time ?? selected.item.from;
  const end = selected.item.time ?? selected.item.to ?? scene.end;
  const x = Math.max(xOf(scene, start), gutter - 6);
  context.fillStyle = theme.link;
  if (start >= scene.view.from && start <= scene.view.to) context.fillRect(Math.round(x), AXIS, 1, height);
  const isScrolled = selected.row.section !== "top" && (y < layout.top - ROW || y > height);
  if (isScrolled) return;
  context.strokeStyle = theme.ink;
  context.lineWidth = 2;
  const long = Math.max(Math.min(xOf(scene, end), width) - x, 0);
  context.strokeRect(x - (selected.item.time === undefined ? 1 : 8), y + 1, long + (selected.item.time === undefined ? 2 : 16), ROW - 2);
}

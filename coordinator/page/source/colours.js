// Colours identify clients. Paul Tol's "light" palette can be told apart with every kind of colour vision, and dark text is readable
// on each. More clients than colours take the same colours with a pattern, so that colour alone never decides.

import palette from "../palette.json";

const PATTERNS = 4;
const TILE = 8;
export const COLOURED_MAX = palette.clients.length * PATTERNS;
export const INK = "#1d2733";

export function clientStyle(place) {
  if (place >= COLOURED_MAX) return { colour: palette.others, pattern: 0 };
  return { colour: palette.clients[place % palette.clients.length], pattern: Math.floor(place / palette.clients.length) };
}

// What a rebalance of each kind of cause is called in a legend.
export const CAUSES = {
  "falls silent": "a client falls silent, or comes back",
  "stops polling": "a client stops polling",
  "is too late": "a client does not follow in time",
  joins: "a member joins",
  leaves: "a member leaves",
  rollout: "a rollout replaces the members",
  topic: "a topic appears or changes",
  administrator: "an administrator acts",
  "the group starts": "the group starts",
  other: "something else",
  unknown: "a rebalance",
};

const patterns = new Map();

// The fill of a bar: a colour, or a pattern of a canvas.
export function fillOf(context, colour) {
  if (colour.cause !== undefined) return palette.causes[colour.cause] ?? palette.unknown;
  const style = clientStyle(colour.place);
  if (!style.pattern) return style.colour;
  const key = `${style.colour} ${style.pattern}`;
  if (!patterns.has(key)) patterns.set(key, context.createPattern(tile(style), "repeat"));
  return patterns.get(key);
}

function tile({ colour, pattern }) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = TILE;
  const context = canvas.getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, TILE, TILE);
  context.strokeStyle = context.fillStyle = "rgba(29, 39, 51, 0.32)";
  context.lineWidth = 1.5;
  context.beginPath();
  if (pattern === 1) for (const x of [-TILE, 0, TILE]) lineTo(context, x, TILE, x + TILE, 0);
  if (pattern === 2) lineTo(context, 0, TILE / 2, TILE, TILE / 2);
  if (pattern === 3) context.arc(TILE / 2, TILE / 2, 1.6, 0, 7);
  if (pattern === 3) context.fill();
  else context.stroke();
  return canvas;
}

function lineTo(context, x, y, toX, toY) {
  context.moveTo(x, y);
  context.lineTo(toX, toY);
}

// A small square with the colour, for legends.
export function swatch(colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 24;
  canvas.className = "tl-swatch";
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = fillOf(context, colour);
  context.fillRect(0, 0, 12, 12);
  return canvas;
}

// Small drawings as SVG: the last minutes of a group, and a number over time.

const NS = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const WIDTH = 150;
const HEIGHT = 16;

// The rebalances of a group in the last `windowMs`: bars on a line; the one that goes on is drawn to the end.
export function miniature(rebalances, nowMs, windowMs, about) {
  const x = (ms) => Math.max(0, Math.min(WIDTH, ((ms - nowMs + windowMs) / windowMs) * WIDTH));
  const bars = rebalances.map((each) => {
    const from = x(each.started_ms);
    const to = each.ended_ms === null ? WIDTH : x(each.ended_ms);
    return svg("rect", { x: Math.min(from, WIDTH - 2).toFixed(1), y: 0, width: Math.max(2, to - from).toFixed(1), height: HEIGHT,
      class: each.ended_ms === null ? "now" : "was" });
  });
  const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "mini", role: "img", preserveAspectRatio: "none" },
    svg("rect", { x: 0, y: HEIGHT / 2 - 1, width: WIDTH, height: 2, class: "calm" }), ...bars);
  made.setAttribute("aria-label", about);
  return made;
}

// A line of numbers, the newest on the right; null is a gap. `most`: how many fit.
export function spark(values, most, about) {
  const high = Math.max(1, ...values.map((each) => each ?? 0));
  const [width, height] = [300, 56];
  const step = width / (most - 1);
  const paths = [];
  let path = "";
  values.forEach((value, place) => {
    if (value === null) {
      path = "";
      return;
    }
    const point = `${(width - (values.length - 1 - place) * step).toFixed(1)} ${(height - 2 - (value / high) * (height - 6)).toFixed(1)}`;
    if (path) paths[paths.length - 1] += `L${point}`;
    else paths.push(`M${point}`);
    path = point;
  });
  const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "spark", role: "img", preserveAspectRatio: "none" },
    svg("path", { d: `M0 ${height - 1}H${width}`, class: "base" }), svg("path", { d: paths.join("") || "M0 0", class: "line" }));
  made.setAttribute("aria-label", about);
  return made;
}

// Where rows are. The first rows stay at the top; the others scroll below them.

export const AXIS = 22;
export const ROW = 18;
export const BAR = 13;
const HEADING = 24;
const TITLES = { partitions: "partition", members: "member" };

// {fixed, lines, height}: y of the fixed rows counts from the top of the canvas, that of the others from the top of what scrolls.
export function layOut(model, filter = "") {
  const wanted = filter.trim().toLowerCase();
  const fixed = model.rows.filter((row) => row.section === "top").map((row, place) => ({ row, y: AXIS + place * ROW }));
  const lines = [];
  let y = 0;
  for (const [section, noun] of Object.entries(TITLES)) {
    const all = model.rows.filter((row) => row.section === section);
    const rows = wanted ? all.filter((row) => matches(model, row, wanted)) : all;
    if (!rows.length) continue;
    lines.push({ heading: `${rows.length.toLocaleString("en")} ${noun}${rows.length === 1 ? "" : "s"}`, y });
    y += HEADING;
    for (const row of rows) {
      lines.push({ row, y });
      y += ROW;
    }
  }
  return { fixed, lines, top: AXIS + fixed.length * ROW + 4, height: y + 6 };
}

function matches(model, row, wanted) {
  const client = model.clients.get(row.name);
  return [row.name, client?.client_id, client?.host].some((each) => each?.toLowerCase().includes(wanted));
}

// The lines between two heights; lines are in order, and there are at most a few hundred.
export function linesWithin(layout, from, to) {
  return layout.lines.filter((line) => line.y + HEADING > from && line.y < to);
}

export const rowsInOrder = (layout) => [...layout.fixed, ...layout.lines.filter((line) => line.row)].map((line) => line.row);

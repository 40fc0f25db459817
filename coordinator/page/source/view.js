// The part of time that is visible: pure arithmetic over {from, to} in milliseconds.

const SPAN_MIN = 4;
const MARGIN = 0.02;

export function fit(bounds) {
  const room = Math.max((bounds.last - bounds.first) * MARGIN, 1);
  return { from: bounds.first - room, to: bounds.last + room };
}

// `factor` above 1 shows more time; the moment `at` stays where it is.
export function zoomed(view, factor, at, bounds) {
  const whole = fit(bounds);
  const span = view.to - view.from;
  const wanted = Math.min(Math.max(span * factor, SPAN_MIN), (whole.to - whole.from) * 1.5);
  const from = at - ((at - view.from) / span) * wanted;
  return clamped({ from, to: from + wanted }, bounds);
}

export function panned(view, ms, bounds) {
  return clamped({ from: view.from + ms, to: view.to + ms }, bounds);
}

// The end of the events at the right edge, with the span of before.
export function followed(view, bounds) {
  const span = view.to - view.from;
  const to = bounds.last + span * MARGIN;
  return { from: to - span, to };
}

// Pans as little as it takes to see a moment away from the edges.
export function revealed(view, time, bounds) {
  const room = (view.to - view.from) * 0.1;
  if (time < view.from + room) return panned(view, time - view.from - room, bounds);
  if (time > view.to - room) return panned(view, time - view.to + room, bounds);
  return view;
}

// Some of the events always stay in sight.
function clamped(view, bounds) {
  const span = view.to - view.from;
  const low = bounds.first - span * 0.9;
  const high = bounds.last + span * 0.9;
  if (view.from < low) return { from: low, to: low + span };
  if (view.to > high) return { from: high - span, to: high };
  return view;
}

"""The two charts of a group as SVG: its epochs over time, and who owned which partition.

Both share one time axis, so they can be compared vertically. Readers think in time, but the log orders by offset; the
offsets are in the tool tips. An interval too short to see is drawn one pixel wide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from coordinator.pipeline.markup import Markup, tag

WIDTH = 1180
LEFT, RIGHT = 190, 14
ROW = 18
EPOCHS_HEIGHT = 150
LANE = 12
AXIS = 24
_STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
    2_592_000_000, 31_536_000_000,
)  # fmt: skip
_TICKS_MAX = 9
_SHADES = ("#3b6fb6", "#d98032", "#4f9a5c", "#8b62a8", "#c2a83e", "#4ba3a8", "#b56576", "#7a8450", "#5f6c7b", "#a07855",
           "#c77fb0", "#6a8fd0")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps milliseconds to pixels."""

    from_ms: int
    to_ms: int

    def x(self, time_ms: int) -> float:
        span = max(self.to_ms - self.from_ms, 1)
        inside = min(max(time_ms, self.from_ms), self.to_ms)
        return LEFT + (inside - self.from_ms) / span * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> list[tuple[float, str]]:
        span = max(self.to_ms - self.from_ms, 1)
        step = next((each for each in _STEPS_MS if span / each <= _TICKS_MAX), _STEPS_MS[-1])
        step *= -(-span // (step * _TICKS_MAX))
        first = -(-self.from_ms // step) * step
        return [(self.x(at), _moment(at, step)) for at in range(first, self.to_ms + 1, step)]


def _moment(time_ms: int, step_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    if step_ms >= 86_400_000:
        return moment.strftime("%Y-%m-%d")
    if step_ms >= 60_000:
        return moment.strftime("%H:%M")
    if step_ms >= 1_000:
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%H:%M:%S.") + f"{time_ms % 1000:03d}"


def clock(time_ms: int | None) -> str:
    """A timestamp for a table, in UTC."""
    if time_ms is None:
        return ""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"


def duration(ms: int | None) -> str:
    """A duration in the unit a person would use."""
    if ms is None:
        return ""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    if ms < 3_600_000:
        return f"{ms // 60_000} min {ms % 60_000 // 1000} s"
    return f"{ms // 3_600_000} h {ms % 3_600_000 // 60_000} min"


class Colours:
    """Assigns colours to names in order of appearance. After twelve the colours repeat, with stripes."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, name: str) -> str:
        return _SHADES[self._known.setdefault(name, len(self._known)) % len(_SHADES)]

    def is_repeated(self, name: str) -> bool:
        return self._known.setdefault(name, len(self._known)) >= len(_SHADES)


def _frame(height: float, axis: Axis, label: str, *content: Markup) -> Markup:
    lines = [tag("line", x1=f"{x:.1f}", y1=0, x2=f"{x:.1f}", y2=height - AXIS, class_="grid") for x, _ in axis.ticks()]
    words = [
        tag(
            "text",
            text,
            x=f"{min(max(x, LEFT + 26), WIDTH - 34):.1f}",
            y=height - 8,
            text_anchor="middle",
            class_="tick",
        )
        for x, text in axis.ticks()
    ]
    return tag(
        "svg", *lines, *content, *words, viewBox=f"0 0 {WIDTH} {height:g}", width="100%", role="img", aria_label=label,
        xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def epochs(
    axis: Axis, steps: Sequence[tuple[int, int, str]], rebalances: Sequence[tuple[int, int | None, str, str]]
) -> Markup:
    """Draws the group epoch over time, with the rebalances as bars below it.

    `steps`: (time, epoch, tool tip); `rebalances`: (time, duration or None, cause, tool tip).
    """
    causes = Colours()
    top, bottom = 16.0, float(EPOCHS_HEIGHT - AXIS - 3 * LANE)
    low = min((epoch for _, epoch, _ in steps), default=0)
    high = max((epoch for _, epoch, _ in steps), default=1)

    def y(epoch: int) -> float:
        return bottom - (epoch - low) / max(high - low, 1) * (bottom - top)

    path, marks = [], []
    for index, (time_ms, epoch, tip) in enumerate(steps):
        x = axis.x(time_ms)
        path.append(f"M{x:.1f} {y(epoch):.1f}" if index == 0 else f"H{x:.1f}V{y(epoch):.1f}")
        if len(steps) <= 400:
            marks.append(tag("circle", tag("title", tip), cx=f"{x:.1f}", cy=f"{y(epoch):.1f}", r=3, class_="epoch"))
    if path:
        path.append(f"H{axis.x(axis.to_ms):.1f}")
    bars = []
    for time_ms, lasted, cause, tip in rebalances:
        x = axis.x(time_ms)
        width = 2.0 if lasted is None else max(axis.x(time_ms + lasted) - x, 2.0)
        colour = causes.of(cause)
        bars.append(tag("rect", tag("title", tip), x=f"{x:.1f}", y=f"{bottom + 10:.1f}", width=f"{width:.1f}",
                        height=LANE, fill=colour, class_="rebalance"))  # fmt: skip
    words = [
        tag("text", f"epoch {high}", x=LEFT - 8, y=f"{y(high) + 4:.1f}", text_anchor="end", class_="name"),
        tag("text", f"{low}", x=LEFT - 8, y=f"{y(low) + 4:.1f}", text_anchor="end", class_="name")
        if high > low
        else None,
        tag("text", "rebalances", x=LEFT - 8, y=f"{bottom + 20:.1f}", text_anchor="end", class_="name"),
    ]
    return _frame(
        EPOCHS_HEIGHT, axis, "the group's epochs and rebalances over time",
        *(word for word in words if word is not None), tag("path", d="".join(path), class_="steps"), *marks, *bars,
    )  # fmt: skip


def legend(colours: Mapping[str, tuple[str, bool]]) -> Markup:
    """A legend: name -> (colour, striped)."""
    items = []
    for name, (colour, striped) in colours.items():
        items.append(tag("span", tag("i", style=f"background:{colour}", class_="striped" if striped else None), name))
    return tag("p", *items, class_="legend")


def gantt(
    axis: Axis,
    rows: Sequence[tuple[str, Sequence[tuple[int, int | None, str, str]]]],
    marks: Mapping[str, Sequence[tuple[int, bool, str]]],
    colours: Colours,
) -> Markup:
    """Draws one row per partition and one bar per ownership.

    `rows`: (partition, [(from, to or None, member, tool tip)]); `marks`: partition -> (time, accepted, tool tip) for zombie
    commits. A cross marks an accepted commit, a ring a refused one.
    """
    height = len(rows) * ROW + AXIS + 6
    content = [
        tag("pattern", tag("line", x1=0, y1=0, x2=0, y2=6, stroke="#ffffff", stroke_width=2, stroke_opacity="0.55"),
            id="stripe", width=6, height=6, patternUnits="userSpaceOnUse", patternTransform="rotate(45)"),
    ]  # fmt: skip
    for index, (name, bars) in enumerate(rows):
        y = index * ROW + 3
        short = name if len(name) <= 27 else f"…{name[-26:]}"
        content.append(tag("text", tag("title", name), short, x=LEFT - 8, y=y + 11, text_anchor="end", class_="name"))
        content.append(tag("rect", x=LEFT, y=y, width=WIDTH - LEFT - RIGHT, height=ROW - 4, class_="lane"))
        shared = _overlaps(bars)
        for place, (from_ms, to_ms, member, tip) in enumerate(bars):
            x = axis.x(from_ms)
            width = max(axis.x(axis.to_ms if to_ms is None else to_ms) - x, 1.0)
            # Two simultaneous owners share the height of the row, so that both are visible.
            top, tall = (y + (ROW - 4) / 2 * shared[place], (ROW - 4) / 2) if place in shared else (y, ROW - 4)
            where = {"x": f"{x:.1f}", "y": f"{top:g}", "width": f"{width:.1f}", "height": f"{tall:g}"}
            content.append(tag("rect", tag("title", tip), **where, fill=colours.of(member)))
            if colours.is_repeated(member):
                content.append(tag("rect", **where, fill="url(#stripe)", pointer_events="none"))
        for time_ms, let_through, tip in marks.get(name, ()):
            x, middle = axis.x(time_ms), y + (ROW - 4) / 2
            if let_through:
                west, east, north, south = f"{x - 5:.1f}", f"{x + 5:.1f}", f"{middle - 5:g}", f"{middle + 5:g}"
                d = f"M{west} {north}L{east} {south}M{west} {south}L{east} {north}"
                content.append(tag("path", tag("title", tip), d=d, class_="cross"))
            else:
                content.append(tag("circle", tag("title", tip), cx=f"{x:.1f}", cy=f"{middle:g}", r=4, class_="ring"))
    return _frame(height, axis, "partition ownership over time", *content)


def _overlaps(bars: Sequence[tuple[int, int | None, str, str]]) -> dict[int, int]:
    """Finds bars that overlap in time: index -> 0 for the upper half of the row, 1 for the lower."""
    found: dict[int, int] = {}
    end, last = -1, -1
    for place, (from_ms, to_ms, _, _) in enumerate(bars):
        until = 1 << 62 if to_ms is None else to_ms
        if last >= 0 and from_ms < end:
            found.setdefault(last, 0)
            found[place] = 1 - found[last]
        if until > end:
            end, last = until, place
    return found

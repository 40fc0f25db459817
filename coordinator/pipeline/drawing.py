"""The two charts of a group: its epochs and rebalances over time, and who owned which partition.

Both share one time axis, so they can be compared vertically. Readers think in time, but the log orders by offset; the
offsets are in the tool tips. A bar too short to see is drawn one pixel wide.

Bars are elements with a position in per cent, not a picture: text keeps its size on every screen, a label that does not fit is
cut at its end, and colours follow the style sheet. A chart can be used with the keyboard: each row, and each rebalance, takes
the focus and shows its text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from coordinator.pipeline.markup import Markup, join, tag

_STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
    2_592_000_000, 31_536_000_000,
)  # fmt: skip
_TICKS_MAX = 9
_LABELLED, _WIDE = 6.0, 20.0
"""A bar of this many per cent has a label; of that many also on a narrow screen."""
_EDGE = 4.0
_OWNERS_SPOKEN = 12
"""A row's text names as many ownerships."""
_TALL = 100


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps milliseconds to per cent of the width."""

    from_ms: int
    to_ms: int

    def x(self, time_ms: int) -> float:
        span = max(self.to_ms - self.from_ms, 1)
        inside = min(max(time_ms, self.from_ms), self.to_ms)
        return (inside - self.from_ms) / span * 100

    def ticks(self) -> list[tuple[float, str]]:
        span = max(self.to_ms - self.from_ms, 1)
        step = next((each for each in _STEPS_MS if span / each <= _TICKS_MAX), _STEPS_MS[-1])
        step *= -(-span // (step * _TICKS_MAX))
        first = -(-self.from_ms // step) * step
        return [(self.x(at), _moment(at, step)) for at in range(first, self.to_ms + 1, step)]


class Bar(NamedTuple):
    """An interval. `to_ms` None: until the end."""

    from_ms: int
    to_ms: int | None
    colour: str
    label: str
    tip: str
    href: str | None = None


class Mark(NamedTuple):
    """A commit of a zombie, accepted or refused."""

    time_ms: int
    accepted: bool
    tip: str


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


def _chart(axis: Axis, label: str, *rows: Markup) -> Markup:
    ticks = axis.ticks()
    lines = (tag("i", style=f"left:{x:.2f}%") for x, _ in ticks)
    words = (
        tag("span", text, style=f"left:{x:.2f}%", class_=_tick_class(place, x)) for place, (x, text) in enumerate(ticks)
    )
    return tag(
        "div", tag("div", *lines, class_="lines"), *rows, tag("div", *words, class_="ticks"), class_="chart", role="group",
        aria_label=label,
    )  # fmt: skip


def _tick_class(place: int, x: float) -> str | None:
    """Texts at the edges stay inside the chart; a narrow screen has every other one."""
    side = "start" if x < _EDGE else "end" if x > 100 - _EDGE else ""
    return f"{side}{' odd' if place % 2 else ''}".strip() or None


def _row(name: str, *content: Markup, class_: str = "row", about: str | None = None) -> Markup:
    """`about`: the text of the row, which then takes the focus."""
    lane = tag("div", *content, class_="lane", tabindex=None if about is None else 0, aria_label=about,
               role=None if about is None else "img")  # fmt: skip
    return tag("div", tag("span", tag("bdi", name), class_="name", title=name), lane, class_=class_)


def _bar(axis: Axis, bar: Bar, half: str = "") -> Markup:
    left = axis.x(bar.from_ms)
    width = axis.x(axis.to_ms if bar.to_ms is None else bar.to_ms) - left
    label = tag("span", bar.label) if width >= _LABELLED and not half and bar.label else None
    classes = f"bar {bar.colour}{half}{' wide-bar' if width >= _WIDE else ''}"
    style = f"left:{left:.2f}%;width:{width:.2f}%"
    if bar.href is not None:
        return tag("a", label, class_=classes, style=style, title=bar.tip, aria_label=bar.tip, href=bar.href)
    return tag("b", label, class_=classes, style=style, title=bar.tip)


def epochs(axis: Axis, steps: Sequence[tuple[int, int]], rebalances: Sequence[Bar]) -> Markup:
    """Draws the group epoch over time, with the rebalances as bars below it. `steps`: (time, epoch)."""
    low = min((epoch for _, epoch in steps), default=0)
    high = max((epoch for _, epoch in steps), default=1)

    def y(epoch: int) -> float:
        return 4 + (high - epoch) / max(high - low, 1) * (_TALL - 8)

    path = []
    for index, (time_ms, epoch) in enumerate(steps):
        x = axis.x(time_ms) * 10
        path.append(f"M{x:.1f} {y(epoch):.1f}" if index == 0 else f"H{x:.1f}V{y(epoch):.1f}")
    if path:
        path.append("H1000")
    line = tag(
        "svg", tag("path", d="".join(path)), viewBox=f"0 0 1000 {_TALL}", preserveAspectRatio="none", aria_hidden="true",
        xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip
    name = f"epoch {low}-{high}" if high > low else f"epoch {high}"
    return _chart(
        axis,
        "the group's epochs and rebalances over time",
        _row(name, line, class_="row steps"),
        _row("rebalances", *(_bar(axis, each) for each in rebalances), class_="row rebalances"),
    )


def gantt(axis: Axis, rows: Sequence[tuple[str, Sequence[Bar]]], marks: Mapping[str, Sequence[Mark]]) -> Markup:
    """Draws one row per partition and one bar per ownership.

    `marks`: partition -> zombie commits. A cross marks an accepted commit, a ring a refused one.
    """
    drawn = []
    for name, bars in rows:
        shared = _overlaps(bars)
        content = [_bar(axis, bar, shared.get(place, "")) for place, bar in enumerate(bars)]
        for mark in marks.get(name, ()):
            kind = "cross" if mark.accepted else "ring"
            content.append(tag("i", class_=f"mark {kind}", style=f"left:{axis.x(mark.time_ms):.2f}%", title=mark.tip))
        drawn.append(_row(name, *content, about=_spoken(name, bars, len(marks.get(name, ())))))
    return _chart(axis, "partition ownership over time", *drawn)


def _spoken(name: str, bars: Sequence[Bar], marks: int) -> str:
    """The row in words, for the keyboard and screen readers."""
    said = [f"{clock(bar.from_ms)[11:19]} {bar.label}" for bar in bars[:_OWNERS_SPOKEN]]
    if len(bars) > _OWNERS_SPOKEN:
        said.append(f"and {len(bars) - _OWNERS_SPOKEN} more")
    if marks:
        said.append(f"{marks} commits of members that did not own it")
    return "\n".join((f"{name}, owned by", *said))


def skip(target: str) -> Markup:
    """A link that the keyboard reaches first, past a chart with many rows."""
    return tag("a", "Skip the chart", href=f"#{target}", class_="skip")


def _overlaps(bars: Sequence[Bar]) -> dict[int, str]:
    """Finds bars that overlap in time: index -> upper or lower half of the row. Two owners are both visible."""
    found: dict[int, str] = {}
    end, last = -1, -1
    for place, bar in enumerate(bars):
        until = 1 << 62 if bar.to_ms is None else bar.to_ms
        if last >= 0 and bar.from_ms < end:
            found.setdefault(last, _UPPER)
            found[place] = _LOWER if found[last] == _UPPER else _UPPER
        if until > end:
            end, last = until, place
    return found


_UPPER, _LOWER = " upper", " lower"


def meter(*shares: float) -> Markup:
    """Parts of a whole as a small bar; the second is the bad one."""
    return tag("div", join(*(tag("i", style=f"width:{share * 100:.1f}%") for share in shares)), class_="meter")

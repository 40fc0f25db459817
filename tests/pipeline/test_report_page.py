"""The report's pages from given rows, without Spark: names are escaped, nothing is loaded, unknown values stay unknown."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

pytest.importorskip("pyspark")

from coordinator.pipeline import drawing, pages
from coordinator.pipeline.markup import Markup, tag, visible
from coordinator.pipeline.pages import GroupData

EVIL = "<script>alert('x')</script>&\"\u202egnp.\0"


def found(**fields: Any) -> GroupData:
    group = {"log_id": "log", "shard": 0, "group": "orders", "kind": "consumer", "first_ms": 0, "last_ms": 10}
    return GroupData({**group, **fields.pop("group", {})}, **fields)


def rebalance(epoch: int, **fields: Any) -> dict[str, Any]:
    plain = {"epoch": epoch, "offset": epoch * 10, "time_ms": epoch * 1000, "members": 2, "cause": "a member joined",
             "cause_member_id": "m1", "reason": None, "duration_ms": 700, "slowest_member_id": "m2", "slowest_ms": 650,
             "completed": True, "superseded": False}  # fmt: skip
    return plain | fields


def owned(partition: int, member: str, from_ms: int, to_ms: int | None, **fields: Any) -> dict[str, Any]:
    plain = {"topic_name": "t", "topic_key": "id", "partition": partition, "member_id": member, "from_ms": from_ms,
             "to_ms": to_ms, "from_offset": from_ms, "to_offset": to_ms, "acquired_epoch": 1, "last_epoch": 2,
             "partitions": 2, "moving": 1}  # fmt: skip
    return plain | fields


def zombie(partition: int, outcome: str, **fields: Any) -> dict[str, Any]:
    plain = {"topic_name": "t", "topic_key": "id", "partition": partition, "member_id": "m1", "time_ms": 1500,
             "committed_offset": 5, "commit_epoch": 1, "member_epoch": 2, "owned_since": None, "truth": "lost",
             "outcome": outcome, "error": None if outcome == "accepted" else "STALE_MEMBER_EPOCH", "offset": 9,
             "state_offset": 12}  # fmt: skip
    return plain | fields


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, name: str, **attributes: str) -> int:
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        return sum(tag == name and wanted.items() <= found.items() for tag, found in self.tags)


def whole(**fields: Any) -> GroupData:
    return found(
        rebalances=[rebalance(1), rebalance(2, cause=None, duration_ms=None, slowest_member_id=None)],
        ownership=[owned(0, "m1", 1000, None), owned(1, "m1", 1000, 1600), owned(1, "m2", 1600, None)],
        marks=[zombie(1, "accepted"), zombie(1, "refused")],
        counts={"rebalances": 2, "marks": 2, "ownership": 3},
        **fields,
    )


def test_plain_text_is_escaped():
    assert tag("b", EVIL, title=EVIL).count("<") == 2
    assert tag("b", tag("i", "x"), Markup("&amp;"), 5, None) == "<b><i>x</i>&amp;5</b>"


def test_invisible_and_bidirectional_characters_are_shown_as_code_points():
    assert visible("a\u202eb\0c\u200b") == r"a\u{202e}b\u{0}c\u{200b}"
    assert visible("Ünïcode 群 🙂") == "Ünïcode 群 🙂"


def test_a_name_cannot_inject_markup():
    story = whole(group={"group": EVIL})
    for rows in (story.rebalances, story.ownership, story.marks):
        for row in rows:
            row |= {
                name: EVIL for name, value in row.items() if isinstance(value, str) and name not in {"truth", "outcome"}
            }
    story.broken = [{"rule": EVIL, "log": EVIL, "offset": 1, "until_offset": None, "time_ms": 1, "member_id": EVIL,
                     "other_member_id": EVIL, "topic_key": EVIL, "partition": 0, "detail": EVIL}]  # fmt: skip
    text = pages.group_page(story, EVIL, pages.INDEX, has_events=True)
    page = Page(text)
    assert page.count("script") == 0
    assert "\u202e" not in text
    assert "\0" not in text
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)


def test_a_page_loads_nothing():
    page = Page(pages.group_page(whole(), "log", None, has_events=True))
    assert {name for name, _ in page.tags} & {"script", "img", "link", "iframe", "object"} == set()
    assert not any(attributes.keys() & {"src", "srcset", "action"} for _, attributes in page.tags)
    policy = next(each["content"] for name, each in page.tags if each.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_ownerships_are_bars_and_zombies_are_crosses_or_rings():
    text = pages.group_page(whole(), "log", None, has_events=True)
    gantt = Page(text[text.index("partition ownership over time") - 200 : text.index("A red cross")])
    assert gantt.count("rect", class_="lane") == 2
    assert sum(name == "rect" and "fill" in each for name, each in gantt.tags) == 3
    assert (gantt.count("path", class_="cross"), gantt.count("circle", class_="ring")) == (1, 1)


def test_two_simultaneous_owners_are_both_visible():
    axis = drawing.Axis(0, 100)
    picture = drawing.gantt(axis, [("t-0", [(0, 60, "a", ""), (40, None, "b", "")])], {}, drawing.Colours())
    bars = [each for name, each in Page(picture).tags if name == "rect" and "fill" in each]
    assert [each["height"] for each in bars] == ["7", "7"]
    assert len({each["y"] for each in bars}) == 2


def test_unknown_values_are_shown_as_unknown():
    page = Page(pages.group_page(found(), "log", None, has_events=False))
    text = " ".join(page.text)
    assert re.findall(r"longest unknown|zombie commits \w+ unknown", " ".join(text.split())) == [
        "longest unknown", "zombie commits accepted unknown", "zombie commits refused unknown",
    ]  # fmt: skip
    assert "no policy can be replayed" in text


def test_gaps_and_truncated_lists_are_stated():
    story = whole(gaps=[{"what": "lost", "from_state_offset": 4, "to_state_offset": None, "detail": "power"}])
    story.counts["rebalances"] = pages.REBALANCES_MAX + 1
    text = " ".join(Page(pages.group_page(story, "log", None, has_events=True)).text)
    assert "Events lost in this shard from state offset 4 to the end of the log" in text
    assert re.search(r"Showing 1,000 of 1,001 rebalances", text)


@pytest.mark.parametrize("span_ms", [1, 700, 60_000, 86_400_000, 400 * 86_400_000, 60 * 365 * 86_400_000])
def test_an_axis_has_a_few_ticks(span_ms):
    ticks = drawing.Axis(1_760_000_000_123, 1_760_000_000_123 + span_ms).ticks()
    assert 1 <= len(ticks) <= 11
    assert [x for x, _ in ticks] == sorted(x for x, _ in ticks)


def test_file_names_are_safe_and_unique():
    names = [pages.file_name(("log", 0, group)) for group in ("../../etc", "a/b", "a?b", "", "é" * 300)]
    assert all(re.fullmatch(r"group-[A-Za-z0-9._-]+\.html", name) for name in names)
    assert len(set(names)) == len(names)

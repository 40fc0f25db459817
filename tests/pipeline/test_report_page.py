"""The report's pages from given rows, without Spark: names are escaped, nothing is loaded, unknown values stay unknown.

What the timeline draws from its data is in tests/page.
"""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

pytest.importorskip("pyspark")

from coordinator.groups.group_history import Client
from coordinator.groups.rebalance_causes import KINDS
from coordinator.page.files import text_of
from coordinator.page.markup import Markup, tag, visible
from coordinator.page.style import COLOURED_MAX, colour_rules, palette
from coordinator.page.timeline import script_hash
from pyspark_coordinator_log.jobs import group_data, pages
from pyspark_coordinator_log.jobs.group_data import GroupData
from pyspark_coordinator_log.jobs.names import OTHERS, Names, cause_colour, short_id

EVIL = "<script>alert('x')</script>&\"\u202egnp.\0"


def found(**fields: Any) -> GroupData:
    group = {"log_id": "log", "shard": 0, "group": "orders", "kind": "consumer", "first_ms": 0, "last_ms": 10}
    return GroupData({**group, **fields.pop("group", {})}, **fields)


def rebalance(epoch: int, **fields: Any) -> dict[str, Any]:
    plain = {"epoch": epoch, "offset": epoch * 10, "time_ms": epoch * 1000, "members": 2, "cause": "a member joined",
             "cause_member_id": "m1", "reason": None, "duration_ms": 700, "slowest_member_id": "m2", "slowest_ms": 650,
             "completed": True, "superseded": False, "event_offset": epoch, "delay_ms": 0}  # fmt: skip
    return plain | fields


def owned(partition: int, member: str, from_ms: int, to_ms: int | None, **fields: Any) -> dict[str, Any]:
    plain = {"topic": "t", "topic_key": "id", "partition": partition, "member_id": member, "from_ms": from_ms,
             "to_ms": to_ms, "from_offset": from_ms, "to_offset": to_ms, "acquired_epoch": 1, "last_epoch": 2,
             "partitions": 2, "moving": 1}  # fmt: skip
    return plain | fields


def zombie(partition: int, outcome: str, **fields: Any) -> dict[str, Any]:
    plain = {"topic": "t", "topic_key": "id", "partition": partition, "member_id": "m1", "time_ms": 1500,
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


def timeline(text: str) -> dict[str, Any]:
    """The data of the timeline on a page."""
    [data] = re.findall(r'<script type="application/json">(.*?)</script>', text)
    return json.loads(data)


def member(member_id: str, client_id: str, host: str = "/10.0.0.1") -> dict[str, Any]:
    return {"member_id": member_id, "client_id": client_id, "client_host": host, "instance_id": None, "from_ms": 0,
            "to_ms": None, "first_epoch": 1, "last_epoch": 2}  # fmt: skip


_NO_FIELDS = dict.fromkeys(
    ("member_id", "client_id", "client_host", "instance_id", "epoch", "cause", "reason", "duration_ms", "delay_ms",
     "timeout", "timeout_ms", "member_count", "waited_for")
)  # fmt: skip


def event(kind: str, offset: int, time_ms: int, **fields: Any) -> dict[str, Any]:
    return {**_NO_FIELDS, "type": kind, "offset": offset, "time_ms": time_ms, **fields}


def stormy() -> list[dict[str, Any]]:
    """The client `gc` falls silent for twelve seconds; newest first."""
    made = [
        event("MemberJoined", 1, 0, member_id="m1", client_id="gc", client_host="/10.0.0.1"),
        event("RebalanceStarted", 2, 20_000, member_id="m1", epoch=1, cause="a member's session timed out"),
        event("MemberExpired", 3, 20_000, member_id="m1", timeout="session", timeout_ms=10_000),
        event("RebalanceCompleted", 4, 24_000, epoch=1, waited_for=[{"member_id": "m1", "waited_ms": 4_000}]),
        event("MemberJoined", 5, 22_000, member_id="m2", client_id="gc", client_host="/10.0.0.1"),
        event("MemberJoined", 6, 40_000, member_id="m3", client_id="api", client_host="/10.0.0.2"),
    ]
    return made[::-1]


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
                     "other_member_id": EVIL, "topic": None, "topic_key": EVIL, "partition": 0, "detail": EVIL}]  # fmt: skip
    text = pages.group_page(story, EVIL, pages.INDEX, has_events=True)
    page = Page(text)
    assert [attributes.get("type") for name, attributes in page.tags if name == "script"] == ["application/json", None]
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "\0" not in text
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
    assert timeline(text)["group"] == EVIL


def test_a_page_loads_nothing_and_runs_only_the_script_of_the_timeline():
    text = pages.group_page(whole(), "log", None, has_events=True)
    page = Page(text)
    assert {name for name, _ in page.tags} & {"img", "link", "iframe", "object"} == set()
    assert not any(attributes.keys() & {"src", "srcset", "action"} for _, attributes in page.tags)
    policy = next(each["content"] for name, each in page.tags if each.get("http-equiv"))
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src '{script_hash()}'"
    assert f"<script>{text_of('timeline.js')}</script>" in text, "the script is as it was hashed"


def test_the_timeline_has_ownerships_and_the_commits_of_zombies():
    data = timeline(pages.group_page(whole(), "log", None, has_events=True))
    owners = [(each["topic"], each["partition"], each["member_id"], each["to_ms"]) for each in data["ownership"]]
    assert owners == [("t", 0, "m1", None), ("t", 1, "m1", 1600), ("t", 1, "m2", None)]
    commits = [each for each in data["events"] if each["type"] == "CommitDecided"]
    errors = [each["topics"][0]["partitions"][0]["error_code"] for each in commits]
    assert [each["truth"] for each in commits] == ["lost", "lost"]
    assert errors == [None, "STALE_MEMBER_EPOCH"]


def test_owners_are_on_paper_and_there_without_scripts_too():
    text = pages.group_page(whole(events=stormy(), members=[member("m1", "gc")]), "log", None, has_events=True)
    table = " ".join(Page(text[text.index('aria-label="Owners of partitions"') :]).text)
    assert "t-1 2 00:00:01 gc, 00:00:01 gc" in re.sub(r"\s+", " ", table)
    assert "Without it: the newest 9 of 9" in text[text.index("<noscript>") : text.index("</noscript>")]


def test_unknown_values_are_shown_as_unknown():
    page = Page(pages.group_page(found(), "log", None, has_events=False))
    text = " ".join(page.text)
    assert re.findall(r"longest unknown|zombie commits \w+ unknown|let through unknown", " ".join(text.split())) == [
        "longest unknown", "zombie commits accepted unknown", "zombie commits refused unknown", "let through unknown",
    ]  # fmt: skip
    assert "no policy can be replayed" in text


def test_a_rebalance_of_unknown_duration_ends_at_once_and_one_in_progress_does_not():
    text = pages.group_page(found(rebalances=[rebalance(1, duration_ms=None)]), "log", None, has_events=False)
    assert [(each["type"], each["time_ms"], each.get("duration_ms")) for each in timeline(text)["events"]] == [
        ("RebalanceStarted", 1000, None), ("RebalanceCompleted", 1000, -1),
    ]  # fmt: skip
    going_on = [event("RebalanceStarted", 7, 50_000, member_id="m3", epoch=2, cause="?"), *stormy()]
    story = found(rebalances=[rebalance(2, time_ms=50_000, duration_ms=None, completed=False)], events=going_on)
    events = timeline(pages.group_page(story, "log", None, has_events=True))["events"]
    assert [each["type"] for each in events if each.get("epoch") == 2] == ["RebalanceStarted"]
    assert [each["kind"] for each in events if "kind" in each] == ["falls silent", "other"]


# --- no false all-clear -------------------------------------------------------------------------------------------------

GAP = {"what": "not written", "from_state_offset": 4, "to_state_offset": None, "detail": "events: refused"}


def greens(page: Page) -> int:
    return sum("good" in (each.get("class") or "").split() for _, each in page.tags)


def test_a_log_without_events_is_never_an_all_clear():
    page = Page(pages.group_page(found(), "log", None, has_events=False))
    text = " ".join(page.text)
    assert greens(page) == 0
    assert "Whether a zombie's commit was accepted is unknown: the log has no events." in text
    assert "no zombie accepted" not in text
    rows = [{"group": "g", "kind": "consumer", "shard": 0, "members": 1, "rebalances": 1, "offset_commits": 1,
             "broken": 0, "first_ms": 1, "last_ms": 2, "log_id": "log"}]  # fmt: skip
    assert greens(Page(pages.fleet_page(rows, 1, set(), None, None, "log"))) == 0


def test_events_that_are_missing_make_nothing_found_uncertain():
    page = Page(pages.group_page(found(gaps=[GAP]), "log", None, has_events=True))
    assert greens(page) == 0
    assert "Some events are missing, so this is not certain." in " ".join(page.text)


def test_nothing_found_in_a_complete_log_is_an_all_clear():
    page = Page(pages.group_page(found(), "log", None, has_events=True))
    assert greens(page) == 2


def test_commits_of_unowned_partitions_have_a_tile_a_sentence_and_the_setting():
    story = found(marks=[zombie(0, "accepted", truth="unowned")], tallies={("unowned", "accepted"): 3})
    page = Page(pages.group_page(story, "log", None, has_events=True))
    text = " ".join(" ".join(page.text).split())
    assert "unowned, let through 3" in text
    assert "3 partitions were committed by members that were up to date and did not own them" in text
    assert "fencing.require.ownership: true" in text


# --- clients ------------------------------------------------------------------------------------------------------------


def test_a_page_opens_with_the_answer_and_a_row_per_client():
    story = whole(events=stormy(), members=[member("m1", "gc"), member("m2", "gc")])
    text = pages.group_page(story, "log", None, has_events=True)
    page = " ".join(Page(text).text)
    sentence = "orders spent 10 % of the last 40 s rebalancing, once: gc falls silent for 12 s (session timeout 10 s)."
    assert page.index(sentence) < page.index("broken invariants")
    clients = text[text.index('aria-label="Clients"') : text.index("Waited for:")]
    assert re.findall(r">(gc|api)<", clients) == ["gc", "api"]


def test_tool_tips_and_tables_have_clients_hosts_and_short_ids():
    uuid = "697b886c-5005-40c5-9d69-0ade8f366bd1"
    long_id = f"orders-gc-{uuid}"
    story = whole(members=[member(long_id, "orders-gc")])
    for rows in (story.rebalances, story.ownership, story.marks):
        for row in rows:
            row |= {name: long_id for name in row if name.endswith("member_id")}
    text = pages.group_page(story, "log", None, has_events=True)
    assert short_id(long_id) == "orders-gc-697b886c…"
    refused = text[text.index("Commits of partitions the member did not own") : text.index("<h2>Rebalances")]
    assert "orders-gc @ 10.0.0.1" in refused
    without_data = re.sub(r"<(script|noscript).*?</\1>", "", text, flags=re.DOTALL)
    assert re.findall(r">[^<]*" + uuid, without_data) == [], "only tool tips of codes have the whole id"


def test_each_client_has_one_colour_and_no_colour_means_two_clients():
    clients = {f"m{n}": Client(f"client-{n}", "") for n in range(COLOURED_MAX + 5)}
    names = Names(clients, ())
    colours = [names.colour(each) for each in clients.values()]
    own = [each for each in colours if each != OTHERS]
    assert len(own) == len(set(own)) == COLOURED_MAX
    assert names.colour(Client("client-40", "")) == OTHERS
    rules = re.findall(r"\.(c[0-9]+)\{background:([^}]*)\}", colour_rules())
    assert set(own) == {name for name, _ in rules}
    assert len({look for _, look in rules}) == COLOURED_MAX


def test_causes_have_colours_of_their_own():
    assert list(palette()["causes"]) == list(KINDS)
    causes = {*palette()["causes"].values(), palette()["unknown"]}
    assert len(causes) == len(KINDS) + 1
    assert causes.isdisjoint({*palette()["clients"], palette()["others"]})
    assert f".{cause_colour(KINDS[-1])}{{background:{palette()['causes'][KINDS[-1]]}}}" in colour_rules()


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_labels_are_readable_on_every_colour():
    """Contrast of at least 4.5, as WCAG asks of small text."""
    for colour in (*palette()["clients"], *palette()["causes"].values(), palette()["others"], palette()["unknown"]):
        low, high = sorted((luminance(colour), luminance("#1d2733")))
        assert (high + 0.05) / (low + 0.05) >= 4.5, colour


# --- without a mouse, and in part --------------------------------------------------------------------


def test_tables_take_the_focus_and_have_names():
    text = pages.group_page(whole(events=stormy(), members=[member("m1", "gc")]), "log", None, has_events=True)
    page = Page(text)
    tables = [each for name, each in page.tags if name == "div" and each.get("class") == "wide"]
    assert len(tables) > 4
    assert all(each["tabindex"] == "0" and each["role"] == "region" and each["aria-label"] for each in tables)


def test_gaps_and_truncated_lists_are_stated():
    story = whole(gaps=[{"what": "lost", "from_state_offset": 4, "to_state_offset": None, "detail": "power"}])
    story.counts["rebalances"] = group_data.REBALANCES_MAX + 1
    text = " ".join(Page(pages.group_page(story, "log", None, has_events=True)).text)
    assert "Events lost in this shard from state offset 4 to the end of the log" in text
    assert re.search(r"Showing 1,000 of 1,001 rebalances", text)


def test_file_names_are_safe_and_unique():
    names = [pages.file_name(("log", 0, group)) for group in ("../../etc", "a/b", "a?b", "", "é" * 300)]
    assert all(re.fullmatch(r"group-[A-Za-z0-9._-]+\.html", name) for name in names)
    assert len(set(names)) == len(names)

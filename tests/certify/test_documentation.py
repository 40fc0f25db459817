"""The pages have every promise and every event as they are declared; `--rewrite` writes them."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from coordinator_testing.certify.curriculum import THEMES
from coordinator_testing.certify.event import PROTOCOLS, Event
from coordinator_testing.certify.judge import PROMISES, SHARE_PROMISES
from coordinator_testing.certify.judge.judgement import Promise
from tests.certify.judged_programs import WRONG, WRONG_CONSUMER, WRONG_SHARE, Wrong

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "promises": DOCS / "certification.md",
    "share": DOCS / "certification.md",
    "judged": DOCS / "certification.md",
    "curriculum": DOCS / "certification-events.md",
}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def promises(declared: Mapping[str, Promise] = PROMISES) -> str:
    rows = [f"| {name} | {cell(promise.rule)} |" for name, promise in declared.items()]
    return "\n".join(["| promise | rule |", "|---|---|", *rows])


def judged(*tables: Mapping[str, Wrong]) -> str:
    rows = [
        f"| {each.mistake} | `{name}` | {each.protocol} | {each.promise} | {each.events.replace(',', ', ')} |"
        for table in tables
        for name, each in table.items()
    ]
    return "\n".join(["| mistake | program | groups | broken promise | at least in |", "|---|---|---|---|---|", *rows])


def allows(event: Event) -> str:
    found = event.allows
    count = "any" if found.rebalances is None else str(found.rebalances)
    if found.rebalances_per_instance:
        count += f" + {found.rebalances_per_instance} per instance"
    return f"rebalances: {count}; {found.stall_s:g} s{'; the program may end' if found.may_end else ''}"


def row(event: Event) -> str:
    sources = "; ".join(f"{each.where}: {each.says}" for each in event.sources)
    how = f"{event.provoked}{' (alone)' if event.is_alone else ''}"
    cells = (
        f"`{event.name}`", ", ".join(event.protocols), event.happens, f"It {event.right_client}.", how, allows(event), sources,
    )  # fmt: skip
    return f"| {' | '.join(map(cell, cells))} |"


def curriculum() -> str:
    head = "| event | protocols | what happens | a right client | provoked by | allows | where Kafka says so |"
    parts = []
    for title, events in THEMES.items():
        parts += [f"## {title}", "", head, "|---|---|---|---|---|---|---|", *map(row, events), ""]
    return "\n".join(parts).rstrip()


def written(page: str) -> str:
    contents = (
        ("promises", promises()),
        ("share", promises({name: each for name, each in SHARE_PROMISES.items() if each not in PROMISES.values()})),
        ("judged", judged(WRONG, WRONG_CONSUMER, WRONG_SHARE)),
        ("curriculum", curriculum()),
    )
    for name, content in contents:
        page = re.sub(
            rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)",
            lambda match, content=content: f"{match[1]}{content}\n{match[2]}",
            page,
            flags=re.DOTALL,
        )
    return page


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_have_the_promises_and_the_events_as_they_are_declared(name, request):
    path = PAGES[name]
    page = path.read_text(encoding="utf-8")
    assert f"<!-- {name}:" in page
    if request.config.getoption("--rewrite"):
        path.write_text(written(page), encoding="utf-8")
    assert written(page) == page


def test_an_event_has_one_name_within_a_protocol_and_says_everything_about_itself():
    for protocol in PROTOCOLS:
        names = [event.name for events in THEMES.values() for event in events if protocol in event.protocols]
        assert len(names) == len(set(names)) > 0
    for events in THEMES.values():
        for event in events:
            assert event.sources, event.name
            assert all((event.happens.endswith("."), event.right_client, event.provoked)), event.name
            assert not event.right_client.endswith("."), event.name


def test_the_curriculum_has_forty_events():
    assert sum(map(len, THEMES.values())) >= 40
    assert sum("classic" in event.protocols for events in THEMES.values() for event in events) >= 20

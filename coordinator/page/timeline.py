"""The timeline of a group inside any HTML document that is written once: the report of the pipeline, a certificate.

    text = document("orders", tag("h1", "orders"), timeline_html({"group": "orders", "events": events}))

The document is one file: style, script and data are inside, and its policy allows nothing else to be loaded or run. The
script draws as the server's page does (coordinator/page/source). Without scripts a table of the events takes the timeline's
place.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NotRequired, TypedDict

from coordinator.page.files import text_of
from coordinator.page.markup import Markup, tag
from coordinator.page.style import colour_rules

EVENTS_WITHOUT_SCRIPT_MAX = 500
"""The newest events, without accepted commits, that the table in place of the timeline has."""


class Ownership(TypedDict):
    """A partition that a member owned for a time, as a log of state shows it."""

    topic: str
    partition: int
    member_id: str
    from_ms: int
    to_ms: int | None
    """None: until the end."""


class KnownMember(TypedDict):
    """A member whose MemberJoined may not be among the events."""

    member_id: str
    client_id: str
    client_host: str
    from_ms: NotRequired[int]
    """Absent: since before the first event. This and `to_ms` count only if no event says it."""
    to_ms: NotRequired[int | None]


class ClientName(TypedDict):
    """A client id with a host."""

    client_id: str
    host: str


class TimelineData(TypedDict):
    """What a timeline shows. Times are milliseconds since the epoch; values are plain JSON."""

    group: str
    events: Sequence[Mapping[str, Any]]
    """The events of docs/events.md as `/v1/events` gives them, in the order of the log: `type`, `offset`, `time_ms`, and the
    event's own fields in snake_case. `shard` and `state_offset` are optional. A RebalanceStarted may have a `kind`, one of
    groups/rebalance_causes.KINDS, for the colour of its bar; a CommitDecided may have a `truth`, the verdict on a commit
    that its sender should not have made."""
    ownership: NotRequired[Sequence[Ownership]]
    """Replaces what AssignmentDelivered events say."""
    members: NotRequired[Sequence[KnownMember]]
    clients: NotRequired[Sequence[ClientName]]
    """Those that get the first colours, in order. Absent: in the order of the events."""


def timeline_html(data: TimelineData) -> Markup:
    """The element of one timeline. Its document must have been made by `document`, which adds style and script once."""
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return tag(
        "div",
        tag("script", Markup(content), type="application/json"),
        tag("noscript", _without_script(data["events"])),
        class_="timeline",
        data_timeline="",
    )


def document(title: str, *body: Markup | str | None, style: str = "") -> str:
    """A complete, self-contained document, whose timelines draw themselves. `style`: rules of its own."""
    script = text_of("timeline.js")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{script_hash()}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(text_of("base.css") + text_of("timeline.css") + colour_rules() + style)),
    )
    whole = tag("html", head, tag("body", *body, tag("script", Markup(script))), lang="en")
    return f"<!doctype html>\n{whole}\n"


@cache
def script_hash() -> str:
    """The hash by which the policy of a document allows the script."""
    digest = hashlib.sha256(text_of("timeline.js").encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _without_script(events: Sequence[Mapping[str, Any]]) -> Markup:
    shown = [each for each in events if each["type"] != "CommitDecided" or is_refused(each)]
    rows = [
        tag("tr", tag("td", _clock(each["time_ms"]), class_="time"), *(tag("td", str(cell)) for cell in _cells(each)))
        for each in shown[: -EVENTS_WITHOUT_SCRIPT_MAX - 1 : -1]
    ]
    heads = ("time (UTC)", "event", "epoch", "member", "what it says", "offset")
    table = tag("table", tag("thead", tag("tr", *(tag("th", each) for each in heads))), tag("tbody", *rows))
    said = f"The timeline is drawn by a script. Without it: the newest {len(rows):,} of {len(shown):,} events."
    return Markup(
        tag("p", said, class_="note") + tag("div", table, class_="wide", tabindex=0, role="region", aria_label="Events")
    )


def is_refused(commit: Mapping[str, Any]) -> bool:
    """Whether a CommitDecided, or a part of it, was refused."""
    partitions = (each for topic in commit.get("topics", ()) for each in topic["partitions"])
    return bool(commit.get("error_code")) or any(each.get("error_code") for each in partitions)


def _cells(event: Mapping[str, Any]) -> tuple[Any, ...]:
    said = [event[name] for name in ("client_id", "cause", "reason", "timeout", "api", "action") if event.get(name)]
    epoch, offset = event.get("epoch"), event.get("offset")
    return (
        event["type"],
        "" if epoch is None else epoch,
        event.get("member_id") or "",
        "; ".join(map(str, said)),
        "" if offset is None else offset,
    )


def _clock(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"

"""The tables of the pages: causes, clients, rebalances, policies, broken invariants, commits, members.

Codes such as member ids are short and never broken; a table that is too wide scrolls by itself, with the keyboard, too.
"""

from collections.abc import Iterable, Iterator, Sequence

from coordinator.groups.cause_words import ROWS_LISTED, client_name, described, rewinder
from coordinator.groups.rebalance_causes import Findings, Rebalance
from coordinator.page.markup import Markup, join, tag
from pyspark_coordinator_log.jobs.group_data import (
    BROKEN_MAX,
    MEMBERS_MAX,
    GroupData,
    Row,
    known,
    lasted,
    partition_name,
)
from pyspark_coordinator_log.jobs.names import Names, cause_colour, code, host
from pyspark_coordinator_log.jobs.times import clock, duration
from pyspark_coordinator_log.jobs.vocabulary import ACCEPTED, CLASSIC, IN_FORCE, UNOWNED

Cell = Markup | str | int | None
OWNERS_MAX = 12
"""The owners of a partition that its row names."""


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    numbers: Iterable[int] = (),
    texts: Iterable[int] = (),
    *,
    about: str,
) -> Markup:
    """A table. `numbers`: columns on the right; `texts`: columns of long text."""
    classes = dict.fromkeys(texts, "text") | dict.fromkeys(numbers, "n")
    body = []
    for row in rows:
        cells = (tag("td", cell, class_=classes.get(column)) for column, cell in enumerate(row))
        body.append(tag("tr", *cells))
    head = tag("tr", *(tag("th", each, class_="n" if classes.get(i) == "n" else None) for i, each in enumerate(heads)))
    return tag(
        "div", tag("table", tag("thead", head), tag("tbody", *body)), class_="wide", tabindex=0, role="region",
        aria_label=about,
    )  # fmt: skip


def moment(time_ms: int | None) -> Markup | None:
    """A time that is not broken."""
    return None if time_ms is None else tag("span", clock(time_ms), class_="time")


def whole(text: str) -> Markup:
    """A name that is not broken."""
    return tag("span", text, class_="whole")


def meter(*shares: float) -> Markup:
    """Parts of a whole as a small bar; the second is the bad one."""
    return tag("div", join(*(tag("i", style=f"width:{share * 100:.1f}%") for share in shares)), class_="meter")


def marked(count: int, mark: str) -> Markup:
    """A number that stands out unless it is zero."""
    return tag("span", f"{count:,}", class_=mark if count else None)


# --- rebalances -------------------------------------------------------------------------------------------------------


def causes(findings: Findings) -> Iterator[Markup]:
    """Why the group rebalanced, and what each client did."""
    if findings.causes:
        yield table(
            ("cause", "rebalances", "time in them"),
            (
                (
                    join(
                        tag("i", class_=f"swatch {cause_colour(each.kind)}"),
                        described(each),
                    ),
                    f"{each.rebalances:,}",
                    duration(each.ms),
                )
                for each in findings.causes
            ),
            (1, 2),
            (0,),
            about="Causes of rebalances",
        )


def clients(findings: Findings, names: Names) -> Iterator[Markup]:
    """What happened to the members of each client."""
    yield table(
        ("client", "host", "members", "joined", "left", "expired", "rebalances caused", "waited for"),
        (
            (
                tag("span", tag("i", class_=f"swatch {names.colour(each.client)}"), each.client.client_id or "(no name)",
                    class_="whole"),
                host(each.client.host),
                f"{each.members:,}",
                f"{each.joined:,}",
                f"{each.left:,}",
                marked(each.expired, "warn"),
                marked(each.rebalances, "warn"),
                duration(each.waited_ms) if each.waited_ms else None,
            )
            for each in findings.clients
        ),
        (2, 3, 4, 5, 6, 7),
        about="Clients",
    )  # fmt: skip
    yield tag(
        "p",
        "Members: at the end. Waited for: how long rebalances waited for the client, whichever client caused them.",
        class_="key",
    )


def rewinds(findings: Findings) -> Iterator[Markup]:
    """The offsets that went back, the newest first."""
    if findings.rewinds:
        yield table(
            ("time (UTC)", "partition", "from", "to", "records again", "committed by", "partition of"),
            (
                (
                    moment(each.time_ms),
                    f"{each.step.topic}-{each.step.partition}",
                    f"{each.step.previous:,}",
                    "none" if each.records is None else f"{each.step.offset:,}",
                    marked(each.records or 0, "warn"),
                    rewinder(each),
                    each.owner and client_name(each.owner),
                )
                for each in findings.rewinds[: -ROWS_LISTED - 1 : -1]
            ),
            (2, 3, 4),
            about="Offsets that went back",
        )


def rebalances(found: GroupData, by_epoch: dict[int, Rebalance]) -> Iterator[Markup]:
    """Each rebalance, the newest first."""
    rows = sorted(found.rebalances, key=lambda row: (row["time_ms"] or 0, row["epoch"]), reverse=True)
    if not rows:
        yield tag("p", "None.", class_="nothing")
        return
    heads = ("began (UTC)", "epoch", "cause", "client", "member", "client's reason", "duration", "of it by a setting",
             "waited longest for", "members", "offset")  # fmt: skip
    yield table(
        heads,
        [
            (
                moment(row["time_ms"]),
                row["epoch"],
                join(
                    tag("i", class_=f"swatch {cause_colour(_kind(row, by_epoch))}"), row["cause"] or tag("i", "unknown")
                ),
                _client(found, row["cause_member_id"]),
                code(row["cause_member_id"]),
                row["reason"],
                lasted(row),
                duration(row["delay_ms"]) if row["delay_ms"] else None,
                _slowest(found, row),
                row["members"],
                row["offset"],
            )
            for row in rows
        ],
        (1, 9, 10),
        (2, 5),
        about="Rebalances",
    )


def _kind(row: Row, by_epoch: dict[int, Rebalance]) -> str | None:
    rebalance = by_epoch.get(row["epoch"])
    return None if rebalance is None else rebalance.kind


def _client(found: GroupData, member_id: str | None) -> Markup | None:
    """The client and host of a member."""
    if not member_id:
        return None
    client = found.names.client(member_id)
    where = host(client.host)
    return tag("span", client.client_id or "(no name)", f" @ {where}" if where else "", class_="whole")


def _slowest(found: GroupData, row: Row) -> Markup | str | None:
    if row["slowest_member_id"] is None:
        return None
    label = found.names.label(found.names.client(row["slowest_member_id"]))
    return tag("span", f"{label} ({duration(row['slowest_ms'])})", title=row["slowest_member_id"])


# --- policies ---------------------------------------------------------------------------------------------------------


def policies(rows: Sequence[Row], *, has_events: bool, kind: str | None) -> Iterator[Markup]:
    """What each fencing policy would have done."""
    if not has_events:
        yield tag("p", "The log has no events, so no policy can be replayed.", class_="nothing")
        return
    if not rows:
        text = (
            "Classic groups have no fencing policy." if kind == CLASSIC else "No member of a consumer group committed."
        )
        yield tag("p", text, class_="nothing")
        return
    order = {name: place for place, name in enumerate((IN_FORCE, "strict", "revocation_epoch", "assignment_epoch"))}
    shown = sorted(rows, key=lambda row: order.get(row["replayed"], 9))
    most = max(1, *(row["refused_wrongly"] + row["accepted_zombies"] for row in shown))
    yield tag(
        "p",
        "Each member's request was decided again under each policy, on the state that the log shows for that moment. "
        "A refusal is right if the member had lost some partition of the request, or had lost it and got it back.",
    )
    yield table(
        ("policy", "requests", "refused", "rightly", "wrongly", "zombies accepted", "with unowned partitions",
         "wrong decisions"),
        (
            (
                _policy_name(row),
                f"{row['requests']:,}",
                f"{row['refused']:,}",
                f"{row['refused_rightly']:,}",
                marked(row["refused_wrongly"], "warn"),
                marked(row["accepted_zombies"], "bad"),
                f"{row['accepted_unowned']:,}",
                meter(row["refused_wrongly"] / most, row["accepted_zombies"] / most),
            )
            for row in shown
        ),
        (1, 2, 3, 4, 5, 6),
        about="Fencing policies",
    )  # fmt: skip


def what_if(answer: Row) -> Iterator[Markup]:
    """The harm then and under another setting, how well the replay reproduces what was recorded, and what it assumes."""
    then, now = answer["settings"]["then"], answer["settings"]["now"]
    differences = [f"{name}: {then[name]} → {now[name]}" for name in then if then[name] != now[name]]
    period = f"{clock(answer['from_ms'])} to {clock(answer['to_ms'])} UTC"
    yield tag("p", tag("b", "; ".join(differences) or "No setting is changed."), f" ({period}, replayed)")
    yield table(
        ("measure", "recorded", "replayed, unchanged", "replayed, changed"),
        (
            (name.replace("_", " "), *(f"{answer[column][name]:,}" for column in _REPLAYS))
            for name in answer["recorded"]
        ),
        (1, 2, 3),
        about="What another setting would have changed",
    )
    yield tag("p", answer["proof"]["text"])
    yield tag("p", "Assumed:")
    yield tag("ul", *(tag("li", each) for each in answer["assumptions"]))


_REPLAYS = ("recorded", "replayed_unchanged", "replayed_changed")


def _policy_name(row: Row) -> Markup | str:
    if row["replayed"] != IN_FORCE:
        return whole(str(row["replayed"]).replace("_", "-"))
    policy = row.get("policy_in_force")
    return tag("b", f"in force ({policy})" if policy else "in force")


# --- invariants and commits -------------------------------------------------------------------------------------------


def broken(found: GroupData, *, has_events: bool) -> Iterator[Markup]:
    """The broken invariants; without events, or where some are missing, what cannot be known is no all-clear."""
    if not found.broken:
        if not has_events:
            said = "No epoch out of order, no partition with two owners. Whether a zombie's commit was accepted is unknown: "
            yield tag("p", said, "the log has no events.", class_="nothing")
        elif found.gaps:
            said = (
                "None in what the log shows: no epoch out of order, no partition with two owners, no zombie accepted. "
            )
            yield tag("p", said, "Some events are missing, so this is not certain.", class_="nothing")
        else:
            text = "None: no epoch out of order, no partition with two owners, no zombie accepted."
            yield tag("p", text, class_="good")
        return
    heads = ("rule", "log", "offset", "until", "time (UTC)", "client", "member", "other member", "partition", "detail")
    yield table(
        heads,
        (
            (
                tag("b", row["rule"]),
                row["log"],
                row["offset"],
                row["until_offset"],
                moment(row["time_ms"]),
                _client(found, row["member_id"]),
                code(row["member_id"]),
                code(row["other_member_id"]),
                None if row["partition"] is None else whole(partition_name(row)),
                row["detail"],
            )
            for row in sorted(found.broken, key=lambda row: (row["rule"], row["offset"]))
        ),
        (2, 3),
        (9,),
        about="Broken invariants",
    )


def marks(found: GroupData, *, has_events: bool) -> Iterator[Markup]:
    """The commits of partitions that their member did not own."""
    if not has_events:
        yield tag("p", "Unknown: the log has no events.", class_="nothing")
        return
    yield from unowned_accepted(found.tally(UNOWNED, ACCEPTED))
    if not found.marks:
        yield tag("p", "None.", class_="nothing")
        return
    heads = ("time (UTC)", "event", "state offset", "client", "member", "partition", "committed", "with epoch",
             "member epoch", "owned since", "verdict", "outcome")  # fmt: skip
    shown = sorted(found.marks, key=lambda row: (row["outcome"], row["offset"]))[:BROKEN_MAX]
    if len(shown) < len(found.marks):
        yield tag("p", f"Showing the first {len(shown):,} of {len(found.marks):,}.", class_="note")
    yield table(
        heads,
        (
            (
                moment(row["time_ms"]), row["offset"], row["state_offset"], _client(found, row["member_id"]),
                code(row["member_id"]), whole(partition_name(row)), row["committed_offset"], row["commit_epoch"],
                known(row["member_epoch"]), known(row["owned_since"]), row["truth"],
                tag("span", _outcome(row), class_="bad" if row["outcome"] == ACCEPTED and row["truth"] != UNOWNED else None),
            )
            for row in shown
        ),
        (1, 2, 6, 7, 8, 9),
        about="Commits of partitions that the member did not own",
    )  # fmt: skip


def unowned_accepted(partitions: int) -> Iterator[Markup]:
    """What was let through although its sender did not own it, and the setting that ends that."""
    if partitions:
        times = "1 partition was" if partitions == 1 else f"{partitions:,} partitions were"
        yield tag(
            "p",
            f"{times} committed by members that were up to date and did not own them, and the commits were accepted, as in "
            "Kafka, whatever the fencing policy. ",
            tag("code", "fencing.require.ownership: true"),
            " refuses such commits.",
            class_="note",
        )


def _outcome(row: Row) -> str:
    return ACCEPTED if row["outcome"] == ACCEPTED else f"{row['outcome']}: {row['error']}"


def members(found: GroupData) -> Iterator[Markup]:
    """The members, the oldest first."""
    if not found.members:
        yield tag("p", "None.", class_="nothing")
        return
    newest = sorted(found.members, key=lambda row: row["from_ms"])[-MEMBERS_MAX:]
    yield table(
        ("client", "host", "member", "instance", "from (UTC)", "to", "first epoch", "last epoch"),
        (
            (
                row["client_id"], host(row["client_host"]), code(row["member_id"]), row["instance_id"],
                moment(row["from_ms"]), moment(row["to_ms"]) or "still a member", row["first_epoch"], row["last_epoch"],
            )
            for row in newest
        ),
        (6, 7),
        about="Members",
    )  # fmt: skip


def ownership(found: GroupData) -> Iterator[Markup]:
    """The owners of each partition in order: what the timeline shows, for paper and for a browser without scripts."""
    if not found.ownership:
        yield tag("p", "The log contains no readable assignment.", class_="nothing")
        return
    by_partition: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(found.ownership, key=lambda row: row["from_offset"]):
        by_partition.setdefault((str(row["topic"] or row["topic_key"]), row["partition"]), []).append(row)
    yield table(
        ("partition", "owners", "from, client"),
        (
            (whole(f"{topic}-{partition}"), len(rows), _owners(found.names, rows))
            for (topic, partition), rows in sorted(by_partition.items())
        ),
        (1,),
        (2,),
        about="Owners of partitions",
    )


def _owners(names: Names, rows: Sequence[Row]) -> str:
    said = [
        f"{clock(row['from_ms'])[11:19]} {names.label(names.client(row['member_id']))}" for row in rows[:OWNERS_MAX]
    ]
    if len(rows) > OWNERS_MAX:
        said.append(f"and {len(rows) - OWNERS_MAX:,} more")
    return ", ".join(said)

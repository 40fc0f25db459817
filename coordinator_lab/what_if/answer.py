"""The answer: recorded, replayed as it was, and replayed with other settings; with the proof and the assumptions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coordinator.groups.kinds import Kind
from coordinator.operations.json_values import table
from coordinator_lab.what_if.behaviour import Away, Behaviour, behaviour
from coordinator_lab.what_if.outcome import Outcome, measure, starts
from coordinator_lab.what_if.recording import Events, Window
from coordinator_lab.what_if.replay import replay
from coordinator_lab.what_if.settings import (
    CLASSIC,
    CONSUMER,
    EAGER,
    STREAMS,
    Settings,
    WrongSetting,
    as_values,
    changed,
)

NEAR_MS = 1_000
"""A rebalance of the replay is the recorded one if it starts within this time of it."""
_ROWS = (
    ("rebalances", "rebalances"),
    ("rebalancing_seconds", "seconds of rebalances"),
    ("seconds_without_owner", "seconds with a partition without owner"),
    ("partition_seconds_without_owner", "partition seconds without owner"),
    ("records_read_twice", "records read twice"),
    ("records_of_rewound_offsets", "records of offsets that went back"),
    ("zombie_commits_accepted", "zombie commits accepted"),
    ("zombie_commits_refused", "zombie commits refused"),
)


GOOD = 0.2
"""Measures of the replay that differ from the recorded ones by more are named."""


class Answer(NamedTuple):
    """The three outcomes, what they were computed with, and what was assumed."""

    group_id: str
    window: Window
    settings_then: Settings
    settings_now: Settings
    recorded: Outcome
    replayed: Outcome
    changed: Outcome
    matched: int
    """Recorded rebalances that the replay of the unchanged settings has at the same time."""
    assumptions: Sequence[str]


def answer(group_id: str, events: Events, window: Window, recorded: Sequence[str], other: Sequence[str]) -> Answer:
    """Replays the events as they were and with other settings.

    `recorded`, `other`: NAME=VALUE of the settings that were in force and cannot be found in the events, and of those to try.
    Raises WrongSetting.
    """
    given = changed(Settings(), recorded)
    known = behaviour(events, window, given.max_poll_interval_ms)
    if known.kind is Kind.SHARE:
        raise WrongSetting("a share group cannot be replayed: it has neither generations nor owners of partitions")
    then = changed(_in_force(known), recorded)
    now = changed(then, other)
    if then.protocol == STREAMS != now.protocol:
        raise WrongSetting("group.protocol: a streams group can be replayed as a streams group only")
    before, after = (replay(known, settings, window) for settings in (then, now))

    def outcome(which: Events, settings: Settings, work: Any = ()) -> Outcome:
        is_eager = settings.protocol == CLASSIC and settings.rebalance_protocol == EAGER
        return measure(which, known.progress, window, is_eager=is_eager, work=work)

    return Answer(
        group_id,
        window,
        then,
        now,
        outcome(events, then),
        outcome(before.events, then, before.work),
        outcome(after.events, now, after.work),
        _matched(starts(events, window), starts(before.events, window)),
        _assumptions(known, then, now, recorded),
    )


def _in_force(known: Behaviour) -> Settings:
    """The settings as the events show them, and Kafka's defaults."""
    defaults = Settings()
    return Settings(
        session_timeout_ms=known.session_timeout_ms or defaults.session_timeout_ms,
        max_poll_interval_ms=known.rebalance_timeout_ms or defaults.max_poll_interval_ms,
        initial_delay_ms=defaults.initial_delay_ms if known.initial_delay_ms is None else known.initial_delay_ms,
        protocol=known.kind.label,
    )


def _matched(recorded: list[int], replayed: list[int]) -> int:
    """How many of the recorded times have a replayed one of their own near them."""
    free, matched = sorted(replayed), 0
    for time_ms in sorted(recorded):
        near = next((each for each in free if abs(each - time_ms) <= NEAR_MS), None)
        if near is not None:
            free.remove(near)
            matched += 1
    return matched


def _assumptions(known: Behaviour, then: Settings, now: Settings, given: Sequence[str]) -> list[str]:
    named = {text.partition("=")[0] for text in given}
    found = []
    for name, value in (
        ("session.timeout.ms", known.session_timeout_ms),
        ("max.poll.interval.ms", known.rebalance_timeout_ms),
        ("group.initial.rebalance.delay.ms", known.initial_delay_ms),
    ):
        if value is None and name not in named:
            found.append(f"{name} was {as_values(then)[name]}, the default: no event shows it (--recorded {name}=...)")
    if then.protocol == CLASSIC and "rebalance.protocol" not in named:
        found.append("members gave up all partitions in each rebalance (--recorded rebalance.protocol=cooperative)")
    found += [
        "a member that joins continues the consumer with its instance id, or with its client id and host, that went last",
        f"members commit every {known.commit_ms} ms"
        + (
            ", and before they give up partitions"
            if known.commits_on_revocation
            else ", and not before they give up partitions"
        ),
        "records are read evenly between two commits, and as fast as they were then",
        "each consumer takes as long to follow a rebalance, after its heartbeat, as in the recorded one that is nearest"
        if any(each.delays for each in known.consumers)
        else "consumers follow a rebalance at once: no event shows how long they take",
    ]
    if any(each.kind is Away.SILENT for consumer in known.consumers for each in consumer.absences):
        found.append(
            "a silent consumer does not work, and its first act afterwards is to commit what it had read before"
        )
    if now.session_timeout_ms < then.session_timeout_ms:
        found.append(
            "nobody was silent for long without expiring: the events do not show it, so there may be more rebalances"
        )
    if now.max_poll_interval_ms < then.max_poll_interval_ms:
        found.append("nobody was late for long without being removed: the events do not show it")
    if known.derived:
        found.append("each member that went had left: Kafka's log does not say whether it left, expired or was removed")
    if any(each.kind in {Away.SILENT, Away.KILLED} for consumer in known.consumers for each in consumer.absences):
        found.append("who falls silent or is killed works for half an interval of heartbeats after the last one")
    if now.protocol != then.protocol:
        found.append("each consumer takes as long to follow a rebalance, after its heartbeat, as it usually did")
        found.append(
            "when heartbeats come decides how long a rebalance of a consumer group takes: it may differ by a third"
        )
    if now.protocol == STREAMS:
        found += [
            "topics whose partitions of the same number always had the same owner are read by the same tasks: "
            + "; ".join(" + ".join(each) for each in known.subtopologies),
            "there are no standby tasks, and no states that have to be restored",
        ]
    if then.protocol == now.protocol != CLASSIC:
        late = sum(len(each.late) for each in known.consumers)
        found.append(f"{late} commits came late, after their member had another epoch; as many come late again")
    elif now.protocol == CONSUMER:
        found.append("no commit comes late, after its member has another epoch")
    return found


def deviations(found: Answer) -> dict[str, float]:
    """How much each measure of the unchanged replay differs from the recorded one, as a share of the greater one."""
    replayed = found.replayed.as_values()
    return {
        name: round(abs(value - replayed[name]) / (max(value, replayed[name]) or 1), 3)
        for name, value in found.recorded.as_values().items()
    }


def as_values_of(found: Answer) -> dict[str, Any]:
    """The answer as JSON values. Times are wall clock, ms."""
    return {
        "group": found.group_id,
        "from_ms": found.window.from_ms,
        "to_ms": found.window.to_ms,
        "settings": {"then": as_values(found.settings_then), "now": as_values(found.settings_now)},
        "recorded": found.recorded.as_values(),
        "replayed_unchanged": found.replayed.as_values(),
        "replayed_changed": found.changed.as_values(),
        "proof": {
            "recorded_rebalances": found.recorded.rebalances,
            "replayed_at_the_same_time": found.matched,
            "differences": deviations(found),
            "text": proof(found),
        },
        "assumptions": list(found.assumptions),
    }


def proof(found: Answer) -> str:
    """How well the replay of the unchanged settings reproduces what was recorded."""
    differs = deviations(found)
    wrong = [f"{text} ({differs[name]:.0%})" for name, text in _ROWS if differs[name] > GOOD]
    return (
        f"With the settings unchanged, {found.matched} of {found.recorded.rebalances} recorded rebalances start within "
        f"{NEAR_MS // 1000} s of their time, and the replay has {found.replayed.rebalances} in all. "
    ) + (
        f"Do not rely on what differs by more than {GOOD:.0%}: {', '.join(wrong)}."
        if wrong
        else f"No measure differs by more than {GOOD:.0%}."
    )


def as_text(found: Answer) -> str:
    """The answer for people."""
    columns = [each.as_values() for each in (found.recorded, found.replayed, found.changed)]
    rows = [(text, *(_number(column[name]) for column in columns)) for name, text in _ROWS]
    then, now = as_values(found.settings_then), as_values(found.settings_now)
    differences = [f"{name}: {then[name]} -> {now[name]}" for name in then if then[name] != now[name]]
    return "\n\n".join(
        [
            "\n".join(differences) or "No setting is changed.",
            table(("MEASURE", "RECORDED", "REPLAYED", "CHANGED"), rows),
            f"Proof: {proof(found)}",
            "\n".join(["Assumed:", *(f"- {each}" for each in found.assumptions)]),
        ]
    )


def _number(value: float) -> float:
    return round(value, 1) if isinstance(value, float) else value

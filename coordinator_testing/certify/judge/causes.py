"""Why a partition stood still: what its owner, and others who committed for it, did meanwhile.

A stall has many causes, and each is mended elsewhere: a client that waits, a program that ended, commits that undo each other.
"""

from collections import Counter
from collections.abc import Iterator

from coordinator_testing.certify.judge.entries import NONE, cite, errors
from coordinator_testing.certify.judge.history import Committed, History

_LONG = 0.5
"""The part of a stall in which a request was not answered that explains it."""


def causes(history: History, partition: int, from_ms: int, to_ms: int) -> list[str]:
    """What explains that the partition stood still in this time, the most certain first. Never empty."""
    commits = [each for each in history.committed[partition] if from_ms < each.at_ms < to_ms]
    owners = _owners(history, partition, from_ms, to_ms)
    return [
        *_ended(history, owners, from_ms, to_ms),
        *_commits(history, partition, commits, owners, from_ms),
        *_waits(history, owners, from_ms, to_ms),
        *_without_position(history, owners, from_ms, to_ms),
        *(_idle(history, partition, owners, commits, from_ms, to_ms)),
    ] or ["the requests of its owner show no cause"]


def _owners(history: History, partition: int, from_ms: int, to_ms: int) -> list[int]:
    """The instances that owned the partition at some time in between, as far as the protocol shows it."""
    owns: dict[int, bool] = {}
    found: list[int] = []
    for change in history.ownership.get(partition, ()):
        if change.at_ms > from_ms:
            found += [each for each, owned in owns.items() if owned]
        if change.at_ms >= to_ms:
            break
        owns[change.instance] = change.owns
    return list(dict.fromkeys([*found, *(each for each, owned in owns.items() if owned)]))


def _ended(history: History, owners: list[int], from_ms: int, to_ms: int) -> Iterator[str]:
    for instance in (each for each in history.evidence.instances if each.index in owners):
        for run, following in zip(instance.runs, [*instance.runs[1:], None], strict=True):
            if run.ended_ms is None or run.ended_ms >= to_ms or (following and following.started_ms <= from_ms):
                continue
            how = f"exited with code {run.exit_code}" if run.ended_by == "itself" else "was ended"
            yield f"its owner, instance {instance.index}, {how} at {_at(history, run.ended_ms)}"
        for paused_ms, resumed_ms in instance.pauses:
            if paused_ms < to_ms and resumed_ms > from_ms:
                yield f"its owner, instance {instance.index}, was paused at {_at(history, paused_ms)}"


def _commits(
    history: History, partition: int, commits: list[Committed], owners: list[int], from_ms: int
) -> Iterator[str]:
    """Commits that were accepted and did not advance the offset, and commits that were refused."""
    before = [each.offset for each in history.committed[partition] if each.is_accepted and each.at_ms <= from_ms]
    highest = max(before, default=0)
    for instance in dict.fromkeys(each.instance for each in commits):
        who = f"instance {instance}" if instance in owners else f"instance {instance}, which did not own it,"
        own = [each for each in commits if each.instance == instance]
        accepted = [each.offset for each in own if each.is_accepted]
        if accepted and min(accepted) < highest:
            yield f"{who} moved the offset back from {highest} to {min(accepted)} (commits: {len(accepted)})"
        elif accepted:
            yield f"{who} committed {max(accepted)} again and again (commits: {len(accepted)})"
        refused = Counter(each.error for each in own if each.error != NONE)
        if refused:
            yield f"commits of {who} were refused: {', '.join(f'{count} {name}' for name, count in refused.items())}"


def _waits(history: History, owners: list[int], from_ms: int, to_ms: int) -> Iterator[str]:
    for entry in history.own:
        if entry.outcome not in ("pending", "answered") or history.instance_of(entry) not in owners:
            continue
        until_ms = to_ms if entry.answered_ms is None else entry.answered_ms
        if min(until_ms, to_ms) - max(entry.time_ms, from_ms) >= _LONG * (to_ms - from_ms):
            waited_s = (until_ms - entry.time_ms) / 1000
            yield f"instance {history.instance_of(entry)} waited {waited_s:.1f} s for the answer to {entry.api} ({cite(entry)})"


def _without_position(history: History, owners: list[int], from_ms: int, to_ms: int) -> Iterator[str]:
    """Owners that do not know where to begin, and do not ask again."""
    for instance in owners:
        asked = [each for each in history.own if each.api == "OffsetFetch" and history.instance_of(each) == instance]
        last = next((each for each in reversed(asked) if each.time_ms < to_ms), None)
        if last is not None and to_ms - last.time_ms >= _LONG * (to_ms - from_ms):
            for error in sorted(errors(last)):
                yield f"instance {instance} got {error} for its last OffsetFetch and did not repeat it ({cite(last)})"


def _idle(
    history: History, partition: int, owners: list[int], commits: list[Committed], from_ms: int, to_ms: int
) -> Iterator[str]:
    """Owners that read nothing, or read and committed nothing."""
    if not owners and history.ownership:
        yield "no instance owned it"
    for instance in owners:
        fetched = [
            each
            for each in history.fetched[partition]
            if each.instance == instance and from_ms <= each.entry.time_ms < to_ms
        ]
        ended = [
            entry
            for entry in history.own
            if entry.api == "EndTxn" and history.instance_of(entry) == instance and from_ms < entry.time_ms < to_ms
        ]
        if not fetched:
            yield f"its owner, instance {instance}, was sent no record of it"
        elif not any(each.instance == instance for each in commits):
            count = sum(each.last - each.first + 1 for each in fetched)
            text = f"its owner, instance {instance}, was sent {count} records of it and committed no offset"
            yield f"{text} in {len(ended)} transactions" if ended else text


def _at(history: History, time_ms: int) -> str:
    since_ms = history.evidence.provoked_ms or history.evidence.began_ms
    return f"{(time_ms - since_ms) / 1000:+.1f} s"

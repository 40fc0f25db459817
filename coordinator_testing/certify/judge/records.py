"""Promises about records and offsets: lost, delivered twice, committed too early, progress."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from coordinator_testing.certify.case import InputRecord
from coordinator_testing.certify.judge.entries import cite
from coordinator_testing.certify.judge.findings import Finding, broken, kept, not_judged
from coordinator_testing.certify.judge.history import Committed, Copied, History, place

_NO_OUTPUT = "the program copies nothing to an output topic"
_DROPPED = "the server forgot entries before they were read"


def lost(promise: str, history: History) -> Finding:
    """Records behind the committed offset that have no copy or, without an output topic, that nobody was sent."""
    evidence = history.evidence
    if evidence.outputs is not None:
        missing = [
            place(evidence, partition, record.offset)
            for partition, record in _committed_records(history)
            if not history.copies.get((partition, record.number))
        ]
        if missing:
            return broken(
                promise, f"{len(missing)} records are committed and have no copy in the output topic", missing
            )
        return kept(promise, "every committed record has a copy in the output topic")
    if evidence.entries_dropped:
        return not_judged(promise, _DROPPED)
    if evidence.outages:
        return not_judged(promise, f"{_NO_OUTPUT}, and what was sent while the server went down is not recorded")
    unsent = [
        place(evidence, partition, record.offset)
        for partition, record in _committed_records(history)
        if not _was_sent(history, partition, record)
    ]
    if unsent:
        return broken(promise, f"{len(unsent)} records are committed and no instance was sent them", unsent)
    return not_judged(promise, f"{_NO_OUTPUT}; every committed record was sent to an instance")


def _committed_records(history: History) -> Iterator[tuple[int, InputRecord]]:
    """The records behind the committed offsets. All of a topic that was deleted were committed before."""
    evidence = history.evidence
    last_life = len(evidence.recreated_ms)
    for partition, records in evidence.inputs.items():
        for record in records:
            if record.life < last_life or record.offset < evidence.committed.get(partition, 0):
                yield partition, record


def _was_sent(history: History, partition: int, record: InputRecord) -> bool:
    return any(each.first <= record.offset <= each.last for each in history.fetched[partition])


def delivered_twice(promise: str, history: History) -> Finding:
    """Copies beyond those that at-least-once delivery permits, and records that were read again after their commit."""
    evidence = history.evidence
    if evidence.is_transactional:
        return _copied_once(promise, history)
    again = list(_read_again(history))
    if again:
        return broken(promise, f"{len(again)} times an instance read again what was committed before it began", again)
    if evidence.outputs is None:
        return not_judged(promise, f"{_NO_OUTPUT}; no instance read again what was committed before it began")
    twice = [
        f"{place(evidence, partition, record.offset)}: {cite(second.entry)}"
        for partition, records in evidence.inputs.items()
        for record in records
        for first, second in pairwise(history.copies.get((partition, record.number), ()))
        if first is not None
        and second is not None
        and _is_unexplained(history, partition, record.offset, first, second)
    ]
    if twice:
        return broken(
            promise, f"{len(twice)} records were copied again by a process whose position nothing had moved", twice
        )
    copies = sum(len(each) - 1 for each in history.copies.values())
    return kept(
        promise,
        f"{copies} records were delivered again, as at-least-once delivery permits" if copies else "none",
        copies,
    )


def _copied_once(promise: str, history: History) -> Finding:
    evidence = history.evidence
    twice = [
        place(evidence, partition, record.offset)
        for partition, records in evidence.inputs.items()
        for record in records
        if len(history.copies.get((partition, record.number), ())) > 1
    ]
    if twice:
        return broken(promise, f"{len(twice)} records have several copies of committed transactions", twice)
    return kept(promise, "every record has at most one copy of a committed transaction")


def _read_again(history: History) -> Iterator[str]:
    """Records that an instance was sent below the committed offset from which it was to begin."""
    evidence = history.evidence
    since_ms = max(evidence.recreated_ms, default=0)
    for partition in history.partitions():
        moves = [each for each in history.positions[partition] if each.entry.time_ms >= since_ms]
        for fetched in history.fetched[partition]:
            before = [
                each
                for each in moves
                if (each.instance, each.run) == (fetched.instance, fetched.run)
                and (each.entry.answered_ms or each.entry.time_ms) < fetched.entry.time_ms
            ]
            # ListOffsets is how a client finds where to begin when there is no committed offset, or none that exists.
            if before and before[-1].is_committed and fetched.last < before[-1].offset:
                yield f"{place(evidence, partition, fetched.last)}: {cite(fetched.entry)}"


def _is_unexplained(history: History, partition: int, offset: int, first: Copied, second: Copied) -> bool:
    """Whether one process copied a record again after its commit, though it neither joined nor took its position since it had
    first been sent the record.
    """
    who = (second.instance, second.run)
    to_ms = second.entry.time_ms
    was_committed = any(commit.offset > offset and commit.at_ms <= to_ms for commit in _accepted_of(history, partition))
    if (first.instance, first.run) != who or not was_committed:
        return False
    sent_ms = [
        each.entry.time_ms
        for each in history.fetched[partition]
        if (each.instance, each.run) == who and each.first <= offset <= each.last
    ]
    from_ms = min([first.entry.time_ms, *sent_ms])
    moved = [
        each.entry.time_ms for each in history.positions[partition] if (each.instance, each.run) == who
    ] + history.rejoined[who]
    # A produce that was not answered is sent again.
    repeated = any(start <= to_ms and from_ms <= end for start, end in history.evidence.outages) or any(
        entry.api == "Produce" and entry.outcome != "answered" and history.run_key(entry) == who
        for entry in history.evidence.entries
        if from_ms <= entry.time_ms <= to_ms
    )
    return not repeated and not any(from_ms <= at_ms <= to_ms for at_ms in moved)


def committed_too_early(promise: str, history: History) -> Finding:
    """Accepted commits beyond what the process was sent or, if the program copies, beyond what it had copied."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, _DROPPED)
    early = [
        f"{cite(commit.entry)} commits {place(evidence, partition, commit.offset)}: sent up to {bound}"
        for partition, commit in _accepted(history)
        if (bound := _sent_up_to(history, partition, commit)) < commit.offset
        and not _may_be_unrecorded(history, partition, commit)
    ]
    if early:
        return broken(promise, f"{len(early)} commits are beyond what the process was sent", early)
    if evidence.outputs is None:
        return not_judged(promise, f"{_NO_OUTPUT}; no commit is beyond what the process was sent")
    early = [
        f"{cite(commit.entry)} commits {place(evidence, partition, commit.offset)}: the copy of {record.offset} came"
        f" {copied.at_ms - commit.at_ms} ms later"
        for partition, commit, record, copied in _copied_later(history)
    ]
    if early:
        return broken(promise, f"{len(early)} records were committed before they were copied", early)
    return kept(promise, "every commit covers records that were copied before")


def _accepted(history: History) -> Iterator[tuple[int, Committed]]:
    for partition in history.partitions():
        for commit in _accepted_of(history, partition):
            yield partition, commit


def _sent_up_to(history: History, partition: int, commit: Committed) -> int:
    """The offset behind the last record that the process can have had when it committed."""
    who, at_ms = (commit.instance, commit.run), commit.entry.time_ms
    ends = [
        each.last + 1
        for each in history.fetched[partition]
        if (each.instance, each.run) == who and each.entry.time_ms <= at_ms
    ]
    begins = [
        each.offset
        for each in history.positions[partition]
        if (each.instance, each.run) == who and each.entry.time_ms <= at_ms
    ]
    return max([0, *ends, *begins])


def _may_be_unrecorded(history: History, partition: int, commit: Committed) -> bool:
    """Whether the server was killed since the last record that the process is known to have been sent: what it was sent between
    the last reading of the recordings and their new beginning is not recorded.
    """
    last_ms = max(
        (
            each.entry.time_ms
            for each in history.fetched[partition]
            if (each.instance, each.run) == (commit.instance, commit.run) and each.entry.time_ms <= commit.entry.time_ms
        ),
        default=history.evidence.began_ms,
    )
    return any(last_ms <= to_ms and from_ms <= commit.entry.time_ms for from_ms, to_ms in history.evidence.outages)


def _copied_later(history: History) -> Iterator[tuple[int, Committed, InputRecord, Copied]]:
    """Records whose first copy arrived after the commit that first covered them."""
    life = len(history.evidence.recreated_ms)
    since_ms = max(history.evidence.recreated_ms, default=0)
    for partition in history.partitions():
        records = [each for each in history.evidence.inputs[partition] if each.life == life]
        commits = [each for each in _accepted_of(history, partition) if each.at_ms >= since_ms]
        for record in records:
            commit = next((each for each in commits if each.offset > record.offset), None)
            copies = history.copies.get((partition, record.number), ())
            if commit is None or not copies or copies[0] is None:
                continue
            if copies[0].at_ms > commit.at_ms:
                yield partition, commit, record, copies[0]


def _accepted_of(history: History, partition: int) -> list[Committed]:
    """The offsets that were committed, in the order in which they count."""
    return sorted((each for each in history.committed[partition] if each.is_accepted), key=lambda each: each.at_ms)


def went_back(promise: str, history: History) -> Finding:
    """Committed offsets below one that was committed before, though nobody had the partition's offset moved."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, _DROPPED)
    all_found = [(partition, *each) for partition in history.partitions() for each in _backwards(history, partition)]
    found = [
        f"{cite(commit.entry)} commits {place(evidence, partition, commit.offset)} after {cite(highest.entry)}"
        f" committed {highest.offset}: {highest.offset - commit.offset} records come again"
        for partition, highest, commit in all_found
        if not history.may_be_under_way(commit)
    ]
    if found:
        return broken(promise, f"{len(found)} commits moved an offset back", found)
    if all_found:
        return kept(
            promise, f"{len(all_found)} commits that were under way when the process joined again moved an offset back"
        )
    return kept(promise, "no commit moved an offset back")


def _backwards(history: History, partition: int) -> Iterator[tuple[Committed, Committed]]:
    """A commit, and a later and lower one. A client may commit the position that ListOffsets gave it."""
    lives = list(history.evidence.recreated_ms)
    highest: Committed | None = None
    for commit in _accepted_of(history, partition):
        while lives and commit.at_ms >= lives[0]:
            lives.pop(0)
            highest = None
        if highest is None or commit.offset >= highest.offset:
            highest = commit
            continue
        moved = any(
            not each.is_committed
            and (each.instance, each.run) == (commit.instance, commit.run)
            and highest.at_ms <= each.entry.time_ms <= commit.entry.time_ms
            and each.offset <= commit.offset
            for each in history.positions[partition]
        )
        if not moved:
            yield highest, commit
        highest = commit


def progress(promise: str, history: History) -> Finding:
    """The longest time in which the committed offset of a partition stood still."""
    evidence = history.evidence
    if evidence.provoked_ms is None:
        return not_judged(promise, "the event was not provoked")
    if evidence.entries_dropped:
        return not_judged(promise, _DROPPED)
    ended_ms = evidence.stopped_ms if evidence.settled_ms is None else evidence.settled_ms
    stalls = [
        (to_ms - from_ms - _outage_ms(history, from_ms, to_ms), partition, from_ms)
        for partition in history.partitions()
        for from_ms, to_ms in pairwise(_marks(history, partition, evidence.provoked_ms, ended_ms))
    ]
    longest_ms = max((each[0] for each in stalls), default=0)
    seconds = round(longest_ms / 1000, 1)
    limit_s = evidence.allows.stall_s
    found = [
        f"{evidence.topic}-{partition}: {stall_ms / 1000:.1f} s from {(from_ms - evidence.provoked_ms) / 1000:+.1f} s on"
        for stall_ms, partition, from_ms in sorted(stalls, reverse=True)
        if stall_ms > limit_s * 1000
    ]
    if found:
        return broken(
            promise, f"a partition stood still for {seconds:g} s; the event allows {limit_s:g} s", found, seconds
        )
    if evidence.settled_ms is None:
        behind = _behind(history)
        if behind:
            return broken(promise, "the group did not catch up", behind, seconds)
    return kept(
        promise, f"no partition stood still for more than {seconds:g} s; the event allows {limit_s:g} s", seconds
    )


def _outage_ms(history: History, from_ms: int, to_ms: int) -> int:
    """For how much of this time the server was down: no client can commit then, and a busy machine takes long to start it."""
    return sum(max(0, min(to_ms, end) - max(from_ms, begin)) for begin, end in history.evidence.outages)


def _marks(history: History, partition: int, from_ms: int, to_ms: int) -> Sequence[int]:
    """The start, the commits that advance the offset, and the end; a new partition starts with its first commit."""
    commits: list[int] = []
    highest = -1
    since = [*history.evidence.recreated_ms, to_ms]
    for commit in _accepted_of(history, partition):
        while since and commit.at_ms >= since[0]:
            highest = -1
            since.pop(0)
        if commit.offset > highest:
            highest = commit.offset
            commits.append(commit.at_ms)
    before = [each for each in commits if each <= from_ms]
    during = [each for each in commits if from_ms < each <= to_ms]
    start = [from_ms] if before else []
    # What was read until the end may have been committed a moment before it.
    return [*start, *during, to_ms] if history.evidence.settled_ms is None else [*start, *during]


def _behind(history: History) -> list[str]:
    evidence = history.evidence
    return [
        f"{evidence.topic}-{partition}: committed {evidence.committed.get(partition, 0)} of {records[-1].offset + 1}"
        for partition, records in sorted(evidence.inputs.items())
        if records and evidence.committed.get(partition, 0) <= records[-1].offset
    ]

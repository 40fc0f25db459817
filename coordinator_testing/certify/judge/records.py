"""Promises about records and offsets: lost, delivered twice, committed too early, progress."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from coordinator_testing.certify.case import InputRecord
from coordinator_testing.certify.judge.causes import causes
from coordinator_testing.certify.judge.entries import cite
from coordinator_testing.certify.judge.findings import Finding, broken, kept, not_judged, warning
from coordinator_testing.certify.judge.history import Committed, History, Processed, place

NO_TESTIMONY = "nothing shows what the program has processed"
_TESTIMONIES = {"lines": "line on stdout", "http": "HTTP call", "command": "line of the command"}
UNSTABLE_RETRY_MS = 5_000
"""A client that waits for a transaction to end asks again within this time; else it stands still for a reason of its own."""
LINE_LATE_MS = 500
LINES_LATE = 0.9
"""A busy machine may read a line this many ms after it was written, and this part of all lines a little after."""
DROPPED = "the server forgot entries before they were read"


def lost(promise: str, history: History) -> Finding:
    """Records behind the committed offset that were not processed or, if nothing shows that, that nobody was sent."""
    evidence = history.evidence
    if skipped := list(_skipped(history)):
        return broken(
            promise, f"{len(skipped)} records were skipped after an administrator had reset their offset", skipped
        )
    if history.processed is not None:
        missing = [
            place(evidence, partition, record.offset)
            for partition, record in _committed_records(history)
            if not history.processed.get((partition, record.number))
        ]
        testimony = testimony_of(history)
        if missing:
            return broken(promise, f"{len(missing)} records are committed and have no {testimony}", missing)
        return kept(promise, f"every committed record has a {testimony}")
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    if evidence.outages:
        return not_judged(promise, f"{NO_TESTIMONY}, and what was sent while the server went down is not recorded")
    unsent = [
        place(evidence, partition, record.offset)
        for partition, record in _committed_records(history)
        if not _was_sent(history, partition, record)
    ]
    if unsent:
        return broken(promise, f"{len(unsent)} records are committed and no instance was sent them", unsent)
    return not_judged(promise, f"{NO_TESTIMONY}; every committed record was sent to an instance")


def _skipped(history: History) -> Iterator[str]:
    """Records from the offset on to which an administrator moved the group back, which no instance was sent again. A program
    may remember positions of its own, but not against an administrator.
    """
    evidence = history.evidence
    for reset_ms, offsets in () if evidence.entries_dropped else evidence.resets:
        for partition, offset in offsets.items():
            before = [each.offset for each in _accepted_of(history, partition) if each.at_ms < reset_ms]
            sent = [each for each in history.fetched[partition] if each.entry.time_ms >= reset_ms]
            for skipped in range(offset, max(before, default=0)):
                if not any(each.first <= skipped <= each.last for each in sent):
                    yield place(evidence, partition, skipped)


def testimony_of(history: History) -> str:
    """What shows that a record was processed, for people."""
    return _TESTIMONIES.get(history.evidence.testimony, "copy in the output topic")


def _committed_records(history: History) -> Iterator[tuple[int, InputRecord]]:
    """The records behind the committed offsets. All of a topic that was deleted were committed before; what a partition has
    lost is nobody's any more.
    """
    evidence = history.evidence
    last_life = len(evidence.recreated_ms)
    for partition, records in evidence.inputs.items():
        for record in records:
            is_behind = record.life < last_life or record.offset < evidence.committed.get(partition, 0)
            if is_behind and record.lost_ms is None:
                yield partition, record


def _was_sent(history: History, partition: int, record: InputRecord) -> bool:
    return any(
        each.first <= record.offset <= each.last and each.entry.time_ms >= record.since_ms
        for each in history.fetched[partition]
    )


def delivered_twice(promise: str, history: History) -> Finding:
    """Records processed more often than at-least-once delivery permits, and records that were read again after their commit."""
    evidence = history.evidence
    if twice := list(_copied_in_two_transactions(history)):
        return broken(promise, f"{len(twice)} records have several copies of committed transactions", twice)
    again = list(_read_again(history))
    if again:
        return broken(promise, f"{len(again)} times an instance read again what was committed before it began", again)
    if history.processed is None:
        return not_judged(promise, f"{NO_TESTIMONY}; no instance read again what was committed before it began")
    twice = [
        f"{place(evidence, partition, record.offset)}: {second.place}"
        for partition, records in evidence.inputs.items()
        for record in records
        for first, second in pairwise(history.processed.get((partition, record.number), ()))
        if _is_unexplained(history, partition, record, first, second)
    ]
    if twice:
        return broken(
            promise, f"{len(twice)} records were processed again by a process whose position nothing had moved", twice
        )
    copies = sum(len(each) - 1 for each in history.processed.values())
    return kept(
        promise,
        f"{copies} records were delivered again, as at-least-once delivery permits" if copies else "none",
        copies,
    )


def _copied_in_two_transactions(history: History) -> Iterator[str]:
    """Records with two copies that count, though the coordinator never lost the offset that was committed with the first one.

    A right client reads again what the coordinator forgot: committed offsets that expired, or a position out of range.
    """
    evidence = history.evidence
    if evidence.outputs is None:
        return
    for partition, records in evidence.inputs.items():
        accepted = _accepted_of(history, partition)
        for record in records:
            for first, second in pairwise((history.processed or {}).get((partition, record.number), ())):
                if not (evidence.is_transactional or (first.is_transactional and second.is_transactional)):
                    continue
                committed_ms = min(
                    (each.at_ms for each in accepted if _covers(history, partition, each, record)), default=None
                )
                sent_back = committed_ms is not None and any(
                    (each.instance, each.run) == (second.instance, second.run)
                    and each.offset <= record.offset
                    and committed_ms < each.entry.time_ms <= (second.at_ms or 0)
                    for each in history.positions[partition]
                )
                if not sent_back:
                    yield f"{place(evidence, partition, record.offset)}: {first.place} and {second.place}"


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
            if not before or history.is_other_log(partition, before[-1].offset, fetched.last, fetched.entry.time_ms):
                continue
            if before[-1].is_committed and fetched.last < before[-1].offset:
                yield f"{place(evidence, partition, fetched.last)}: {cite(fetched.entry)}"


def _covers(history: History, partition: int, commit: Committed, record: InputRecord) -> bool:
    """Whether a commit says that this record is done with: it is beyond its offset, the record was there, and if the offset was
    that of another record before, the process had been sent something since.
    """
    if commit.offset <= record.offset or (record.lost_ms is not None and commit.at_ms >= record.lost_ms):
        return False
    return not record.since_ms or any(
        (each.instance, each.run) == (commit.instance, commit.run)
        and record.since_ms <= each.entry.time_ms <= commit.entry.time_ms
        for each in history.fetched[partition]
    )


def _is_unexplained(history: History, partition: int, record: InputRecord, first: Processed, second: Processed) -> bool:
    """Whether one process processed a record again after its commit, though it neither joined nor took its position since it
    had first been sent the record.
    """
    if second.instance is None or second.run is None or first.sent_ms is None or second.sent_ms is None:
        return False
    who, to_ms = (second.instance, second.run), second.sent_ms
    was_committed = any(
        commit.at_ms <= to_ms and _covers(history, partition, commit, record)
        for commit in _accepted_of(history, partition)
    )
    if (first.instance, first.run) != who or not was_committed:
        return False
    sent_ms = [
        each.entry.time_ms
        for each in history.fetched[partition]
        if (each.instance, each.run) == who
        and each.first <= record.offset <= each.last
        and each.entry.time_ms >= record.since_ms
    ]
    from_ms = min([first.sent_ms, *sent_ms])
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
    """Accepted commits beyond what the process was sent or, if something shows that, beyond what it had processed."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    early = [
        f"{cite(commit.entry)} commits {place(evidence, partition, commit.offset)}: sent up to {bound}"
        for partition, commit in _accepted(history)
        if (bound := _sent_up_to(history, partition, commit)) < commit.offset
        and not _may_be_unrecorded(history, partition, commit)
    ]
    if early:
        return broken(promise, f"{len(early)} commits are beyond what the process was sent", early)
    if history.processed is None:
        return not_judged(promise, f"{NO_TESTIMONY}; no commit is beyond what the process was sent")
    testimony = testimony_of(history)
    compared = [
        (
            (
                f"{cite(commit.entry)} commits {place(evidence, partition, commit.offset)}: the {testimony} for {record.offset}"
                f" came {later_ms} ms later"
            ),
            later_ms,
        )
        for partition, commit, record, later_ms in _processed_after(history)
    ]
    return compare(promise, history, compared, "committed")


def compare(promise: str, history: History, compared: Sequence[tuple[str, int]], done: str) -> Finding:
    """Whether records were processed before they were `done`. `compared`: what to say of each, and how much later it was."""
    if not compared:
        return not_judged(promise, f"no {testimony_of(history)} says when a record was processed that was {done}")
    early = [text for text, later_ms in compared if later_ms > 0]
    if history.evidence.testimony == "lines" and len(early) < LINES_LATE * len(compared):
        early = [text for text, later_ms in compared if later_ms > LINE_LATE_MS]
    if early:
        return broken(promise, f"{len(early)} records were {done} before they were processed", early)
    return kept(promise, f"every record that was {done} had been processed before")


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


def _processed_after(history: History) -> Iterator[tuple[int, Committed, InputRecord, int]]:
    """The records that were committed and processed, each with the commit that first covered it, and by how many ms the first
    testimony of it came later; not above 0 if it came before.
    """
    life = len(history.evidence.recreated_ms)
    since_ms = max(history.evidence.recreated_ms, default=0)
    for partition in history.partitions():
        records = [each for each in history.evidence.inputs[partition] if each.life == life]
        commits = [each for each in _accepted_of(history, partition) if each.at_ms >= since_ms]
        for record in records:
            commit = next((each for each in commits if _covers(history, partition, each, record)), None)
            testimonies = (history.processed or {}).get((partition, record.number), ())
            if commit is None or not testimonies or testimonies[0].at_ms is None:
                continue
            yield partition, commit, record, testimonies[0].at_ms - commit.at_ms


def _accepted_of(history: History, partition: int) -> list[Committed]:
    """The offsets that were committed, in the order in which they count."""
    return sorted((each for each in history.committed[partition] if each.is_accepted), key=lambda each: each.at_ms)


def went_back(promise: str, history: History) -> Finding:
    """Committed offsets below one that was committed before, though nobody had the partition's offset moved."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    found: dict[bool, list[str]] = {True: [], False: []}
    for partition in history.partitions():
        for highest, commit in _backwards(history, partition):
            found[history.may_be_under_way(commit)].append(
                f"{cite(commit.entry)} commits {place(evidence, partition, commit.offset)} after {cite(highest.entry)}"
                f" committed {highest.offset}: {highest.offset - commit.offset} records come again"
            )
    if found[False]:
        return broken(promise, f"{len(found[False])} commits moved an offset back", found[False])
    if found[True]:
        # A client library that renews the generation of a commit which waits, as librdkafka does, defeats the fence that
        # the generation is. Its user has to know, and has no means against it; so it is no fault of the program.
        text = f"{len(found[True])} commits that were under way when the process joined again moved an offset back"
        return warning(promise, text, found[True])
    return kept(promise, "no commit moved an offset back")


def _backwards(history: History, partition: int) -> Iterator[tuple[Committed, Committed]]:
    """A commit, and a later and lower one. A client may commit the position that it was given in between."""
    lives = list(history.evidence.recreated_ms)
    highest: Committed | None = None
    for commit in _accepted_of(history, partition):
        while lives and commit.at_ms >= lives[0]:
            lives.pop(0)
            highest = None
        if (
            highest is None
            or commit.offset >= highest.offset
            or history.is_other_log(partition, highest.offset, commit.offset, commit.at_ms)
        ):
            highest = commit
            continue
        moved = any(
            (each.instance, each.run) == (commit.instance, commit.run)
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
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    if evidence.is_interrupted:
        return not_judged(promise, "the event was interrupted")
    if evidence.provoked_ms is None:
        return _commits_at_all(promise, history)
    ended_ms = evidence.stopped_ms if evidence.settled_ms is None else evidence.settled_ms
    stalls = [
        (to_ms - from_ms - _excused_ms(history, partition, from_ms, to_ms), partition, from_ms, to_ms)
        for partition in history.partitions()
        for from_ms, to_ms in pairwise(_marks(history, partition, evidence.provoked_ms, ended_ms))
    ]
    longest_ms = max((each[0] for each in stalls), default=0)
    seconds = round(longest_ms / 1000, 1)
    limit_s = evidence.allows.stall_s
    found = [
        (
            f"{evidence.topic}-{partition}: {stall_ms / 1000:.1f} s from {(from_ms - evidence.provoked_ms) / 1000:+.1f} s on",
            causes(history, partition, from_ms, to_ms),
        )
        for stall_ms, partition, from_ms, to_ms in sorted(stalls, reverse=True)
        if stall_ms > limit_s * 1000
    ]
    if found:
        text = f"a partition stood still for {seconds:g} s; the event allows {limit_s:g} s"
        return _with_causes(promise, text, found, seconds)
    if evidence.settled_ms is None:
        behind = _behind(history, ended_ms)
        if behind:
            return _with_causes(promise, "the group did not catch up", behind, seconds)
    return kept(
        promise, f"no partition stood still for more than {seconds:g} s; the event allows {limit_s:g} s", seconds
    )


def _with_causes(promise: str, text: str, found: list[tuple[str, list[str]]], seconds: float) -> Finding:
    return broken(promise, f"{text}: {found[0][1][0]}", [f"{at}: {'; '.join(why)}" for at, why in found], seconds)


def _commits_at_all(promise: str, history: History) -> Finding:
    """For a program with which the event did not begin, because a partition has no commit."""
    evidence = history.evidence
    found = []
    for partition in history.partitions():
        sent_ms = min((each.entry.time_ms for each in history.fetched[partition]), default=evidence.stopped_ms)
        waited_ms = evidence.stopped_ms - sent_ms
        if waited_ms > evidence.allows.stall_s * 1000 and not _accepted_of(history, partition):
            at = f"{evidence.topic}-{partition}: {waited_ms / 1000:.1f} s since its first record was sent"
            found.append((at, causes(history, partition, sent_ms, evidence.stopped_ms)))
    if not found:
        return not_judged(promise, "the event was not provoked")
    return _with_causes(promise, "a partition was read and never committed", found, evidence.allows.stall_s)


def _excused_ms(history: History, partition: int, from_ms: int, to_ms: int) -> int:
    """For how much of this time no client could commit: the server was down, and starts slowly on a busy machine, or the
    transaction of a killed process kept the partition's offset open until it timed out.
    """
    asked = [
        entry.time_ms
        for entry in history.unstable[partition]
        if from_ms <= entry.time_ms <= to_ms and history.was_killed(entry.time_ms)
    ]
    pending = ((begin, end) for begin, end in pairwise(asked) if end - begin <= UNSTABLE_RETRY_MS)
    return sum(max(0, min(to_ms, end) - max(from_ms, begin)) for begin, end in (*history.evidence.outages, *pending))


def _marks(history: History, partition: int, from_ms: int, to_ms: int) -> Sequence[int]:
    """The start, the commits that advance the offset, and the end; a new partition starts with its first commit."""
    commits: list[int] = []
    highest = -1
    ends = [(each.time_ms, each.end_offset) for each in history.evidence.truncations if each.partition == partition]
    since = sorted([*((each, -1) for each in history.evidence.recreated_ms), *ends, (to_ms, -1)])
    for commit in _accepted_of(history, partition):
        while since and commit.at_ms >= since[0][0]:
            highest = min(highest, since.pop(0)[1])
        if commit.offset > highest:
            highest = commit.offset
            commits.append(commit.at_ms)
    before = [each for each in commits if each <= from_ms]
    during = [each for each in commits if from_ms < each <= to_ms]
    start = [from_ms] if before else []
    # What was read until the end may have been committed a moment before it.
    return [*start, *during, to_ms] if history.evidence.settled_ms is None else [*start, *during]


def _behind(history: History, ended_ms: int) -> list[tuple[str, list[str]]]:
    evidence = history.evidence
    return [
        (
            f"{evidence.topic}-{partition}: committed {evidence.committed.get(partition, 0)} of {records[-1].offset + 1}",
            causes(history, partition, [evidence.began_ms, *_marks(history, partition, 0, ended_ms)][-2], ended_ms),
        )
        for partition, records in sorted(evidence.inputs.items())
        if records and evidence.committed.get(partition, 0) <= records[-1].offset
    ]

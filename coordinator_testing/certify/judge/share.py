"""Promises of share consumers (KIP-932): what was sent to them, what they acknowledged, and what they had processed by then."""

import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from coordinator.rules.model import Entry
from coordinator_testing.certify.case import InputRecord
from coordinator_testing.certify.judge.entries import NONE, cite, error_of, received, rows
from coordinator_testing.certify.judge.findings import Finding, broken, kept, not_judged
from coordinator_testing.certify.judge.history import UNDER_WAY_MS, History, place
from coordinator_testing.certify.judge.records import DROPPED, NO_TESTIMONY, compare, testimony_of

FETCH, ACKNOWLEDGE = "ShareFetch", "ShareAcknowledge"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
_NAMES = {0: "gaps", ACCEPT: "accepted", RELEASE: "released", REJECT: "rejected", RENEW: "renewed"}
_REPEATED = frozenset({"NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE",
                       "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNKNOWN_SERVER_ERROR"})  # fmt: skip
"""Errors after which a client may send the same acknowledgement again."""


class Sent(NamedTuple):
    """Records that a process acquired."""

    entry: Entry
    run: tuple[int, int]
    """The instance and the number of its process."""
    first: int
    last: int
    delivery: int
    """The delivery count."""
    at_ms: int


class Acknowledged(NamedTuple):
    """What a process said of one record, and how that was answered."""

    entry: Entry
    run: tuple[int, int]
    offset: int
    type: int
    error: str
    is_answered: bool

    @property
    def counts(self) -> bool:
        return self.error == NONE


def acknowledgements(entry: Entry) -> Iterator[tuple[str, int, int, int, str]]:
    """Topic, partition, offset, type and error of each record that a request acknowledges."""
    if entry.api not in (FETCH, ACKNOWLEDGE):
        return
    answers = {
        row.at: error_of({"error": row.fields.get("acknowledge_error", row.error)}) for row in rows(entry.response)
    }
    whole = error_of(entry.response or {"error": "NO_ANSWER"})
    for row in rows(entry.request):
        for batch in row.fields.get("acknowledgement_batches") or ():
            types = batch["acknowledge_types"]
            for number, offset in enumerate(range(batch["first_offset"], batch["last_offset"] + 1)):
                kind = types[number] if len(types) > 1 else types[0]
                error = answers.get(row.at, NONE) if whole == NONE else whole
                yield row.at.topic, row.at.partition, offset, kind, error


class Deliveries:
    """What was sent and acknowledged, by partition, in order."""

    def __init__(self, history: History) -> None:
        topic = history.evidence.topic
        self.sent: dict[int, list[Sent]] = defaultdict(list)
        self.acknowledged: dict[int, list[Acknowledged]] = defaultdict(list)
        for entry in history.own:
            run = history.run_key(entry)
            for named, partition, offset, kind, error in acknowledgements(entry):
                if named == topic:
                    found = Acknowledged(entry, run, offset, kind, error, entry.outcome == "answered")
                    self.acknowledged[partition].append(found)
            for row in rows(entry.response) if entry.api == FETCH else ():
                for each in row.fields.get("acquired_records") or () if row.at.topic == topic else ():
                    at_ms = entry.time_ms if entry.answered_ms is None else entry.answered_ms
                    self.sent[row.at.partition].append(
                        Sent(entry, run, each["first_offset"], each["last_offset"], each["delivery_count"], at_ms)
                    )

    def sent_of(self, partition: int, offset: int) -> list[Sent]:
        return [each for each in self.sent[partition] if each.first <= offset <= each.last]

    def settled(self, partition: int, *types: int) -> Mapping[int, Acknowledged]:
        """Offset -> the first acknowledgement of one of these types that counts."""
        found: dict[int, Acknowledged] = {}
        for each in self.acknowledged[partition]:
            if each.type in types and each.counts:
                found.setdefault(each.offset, each)
        return found

    def in_order(self, partition: int) -> list[Sent | Acknowledged]:
        """Both, as their process knew them: what is sent is there with the answer, what is acknowledged with the request."""

        def key(each: Sent | Acknowledged) -> tuple[int, int, bool]:
            at_ms = each.at_ms if isinstance(each, Sent) else each.entry.time_ms
            return at_ms, each.entry.number, isinstance(each, Sent)

        return sorted([*self.sent[partition], *self.acknowledged[partition]], key=key)


def lost(promise: str, history: History) -> Finding:
    """Records that were accepted and not processed, or given back until they were delivered no more."""
    evidence = history.evidence
    if history.processed is None:
        return not_judged(promise, NO_TESTIMONY)
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    deliveries = Deliveries(history)
    accepted: list[str] = []
    given_up: list[str] = []
    for partition, records in evidence.inputs.items():
        of = deliveries.settled(partition, ACCEPT)
        rejected = deliveries.settled(partition, REJECT)
        for record in records:
            at = place(evidence, partition, record.offset)
            if history.processed.get((partition, record.number)) or record.lost_ms is not None:
                continue
            if record.offset in of:
                accepted.append(f"{at}: accepted by {cite(of[record.offset].entry)}")
            elif record.offset not in rejected and _was_given_up(history, deliveries, partition, record):
                times = max(each.delivery for each in deliveries.sent_of(partition, record.offset))
                given_up.append(f"{at}: delivered {times} times")
    testimony = testimony_of(history)
    if accepted:
        return broken(promise, f"{len(accepted)} records were accepted and have no {testimony}", accepted)
    if given_up:
        return broken(
            promise, f"{len(given_up)} records were delivered as often as they may be, and not accepted", given_up
        )
    return kept(promise, f"every accepted record has a {testimony}")


def _was_given_up(history: History, deliveries: Deliveries, partition: int, record: InputRecord) -> bool:
    """Whether a record is done with though nobody settled it, by a process that had its time: not one that was killed."""
    evidence = history.evidence
    sent = deliveries.sent_of(partition, record.offset)
    if evidence.settled_ms is None or evidence.outages or not sent:
        return False
    runs = {each.index: each.runs for each in evidence.instances}
    spoke = {each.run for each in deliveries.acknowledged[partition] if each.offset == record.offset}
    killed = {each.run for each in sent if runs[each.run[0]][each.run[1]].exit_code == -signal.SIGKILL} - spoke
    return any(received(each.entry) is not None and each.run not in killed for each in sent)


def delivered_twice(promise: str, history: History) -> Finding:
    """Records that two held at once, that came again after they were settled or too often, or were processed more often."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    deliveries = Deliveries(history)
    again: list[str] = []
    for partition in history.partitions():
        settled = deliveries.settled(partition, ACCEPT, REJECT)
        again += _held_by_two(history, deliveries, partition)
        for each in deliveries.sent[partition]:
            after = [
                settled[offset]
                for offset in range(each.first, each.last + 1)
                if offset in settled and (settled[offset].entry.answered_ms or each.at_ms) < each.entry.time_ms
            ]
            again += [
                f"{place(evidence, partition, one.offset)}: {cite(each.entry)}, {_NAMES[one.type]} by {cite(one.entry)}"
                for one in after
            ]
            if each.delivery > evidence.delivery_limit:
                again.append(f"{place(evidence, partition, each.first)}: {cite(each.entry)}, delivery {each.delivery}")
    if again:
        return broken(promise, f"{len(again)} times a record was sent that another held or that was done with", again)
    if history.processed is None:
        return not_judged(promise, f"{NO_TESTIMONY}; no record was delivered again that was done with")
    twice = [
        f"{place(evidence, partition, record.offset)}: {processed} times by instance {run[0]}, which got it {got} times"
        for partition, records in evidence.inputs.items()
        for record in records
        for run, processed, got in _more_often(history, deliveries, partition, record)
    ]
    if twice:
        return broken(promise, f"{len(twice)} records were processed more often than they were delivered", twice)
    copies = sum(len(each) - 1 for each in history.processed.values())
    text = f"{copies} records were processed again, as at-least-once delivery permits" if copies else "none"
    return kept(promise, text, copies)


def _held_by_two(history: History, deliveries: Deliveries, partition: int) -> Iterator[str]:
    """Records that two processes were sent with the same delivery count. After a crash of the server it begins at what was
    durable.
    """
    first: dict[tuple[int, int], Sent] = {}
    for each in deliveries.sent[partition]:
        if history.evidence.outages or received(each.entry) is None:
            continue
        for offset in range(each.first, each.last + 1):
            before = first.setdefault((offset, each.delivery), each)
            if before.run != each.run:
                at = place(history.evidence, partition, offset)
                yield f"{at}: delivery {each.delivery} by {cite(before.entry)} and {cite(each.entry)}"


def _more_often(
    history: History, deliveries: Deliveries, partition: int, record: InputRecord
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """The processes that processed a record more often than they got it, with both numbers."""
    testimonies = (history.processed or {}).get((partition, record.number), ())
    counts = Counter((each.instance, each.run) for each in testimonies if each.instance is not None)
    for (instance, run), count in counts.items():
        if count < 2 or instance is None or run is None or history.evidence.outages:
            continue
        who = (instance, run)
        # A produce that failed, or was not answered, is sent again.
        repeated = any(
            entry.api == "Produce" and history.run_key(entry) == who and (entry.fault or entry.outcome != "answered")
            for entry in history.own
        )
        got = sum(each.run == who for each in deliveries.sent_of(partition, record.offset))
        if count > got and not repeated:
            yield who, count, got


def accepted_too_early(promise: str, history: History) -> Finding:
    """Records that were accepted before they were processed."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    if history.processed is None:
        return not_judged(promise, NO_TESTIMONY)
    deliveries, testimony = Deliveries(history), testimony_of(history)
    compared: list[tuple[str, int]] = []
    for partition, records in evidence.inputs.items():
        accepted = deliveries.settled(partition, ACCEPT)
        for record in records:
            testimonies = history.processed.get((partition, record.number), ())
            accept = accepted.get(record.offset)
            if accept is None or not testimonies or testimonies[0].at_ms is None:
                continue
            later_ms = testimonies[0].at_ms - accept.entry.time_ms
            at = place(evidence, partition, record.offset)
            compared.append((f"{cite(accept.entry)} accepts {at}: its {testimony} came {later_ms} ms later", later_ms))
    return compare(promise, history, compared, "accepted")


def acknowledged_unheld(promise: str, history: History) -> Finding:
    """Acknowledgements of records that the process was not sent, or for the second time."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    deliveries = Deliveries(history)
    found = [
        f"{cite(each.entry)}: {place(evidence, partition, each.offset)} is {_NAMES.get(each.type, each.type)}, {why}"
        for partition in history.partitions()
        for each, why in _unheld(deliveries, partition)
        if not any(begin <= each.entry.time_ms <= end + UNDER_WAY_MS for begin, end in evidence.outages)
    ]
    if found:
        return broken(promise, f"{len(found)} acknowledgements were for records that the process did not hold", found)
    return kept(promise, "every acknowledgement was for a record that the process had been sent")


def _unheld(deliveries: Deliveries, partition: int) -> Iterator[tuple[Acknowledged, str]]:
    """Those for records that the process never had, or had done with. One whose lock has ended need not know it yet: it may
    acknowledge a record as often as it was sent it.
    """
    sent = Counter[tuple[tuple[int, int], int]]()
    """Process and offset -> how often the process was sent the record and has not done with it."""
    done: dict[tuple[tuple[int, int], int], Acknowledged] = {}
    for each in deliveries.in_order(partition):
        if isinstance(each, Sent):
            sent.update((each.run, offset) for offset in range(each.first, each.last + 1))
            continue
        key = each.run, each.offset
        if key not in sent:
            yield each, "which the process was not sent"
        elif not sent[key]:
            yield each, f"after {cite(done[key].entry)} had done so"
        elif each.type != RENEW and each.is_answered and each.error not in _REPEATED:
            sent[key] -= 1
            done[key] = each


def progress(promise: str, history: History) -> Finding:
    """The longest time in which no record of a partition was accepted or rejected."""
    evidence = history.evidence
    if evidence.entries_dropped:
        return not_judged(promise, DROPPED)
    if evidence.is_interrupted:
        return not_judged(promise, "the event was interrupted")
    deliveries = Deliveries(history)
    if evidence.provoked_ms is None:
        return _settles_at_all(promise, history, deliveries)
    ended_ms = evidence.stopped_ms if evidence.settled_ms is None else evidence.settled_ms
    stalls = [
        (to_ms - from_ms - _down_ms(history, from_ms, to_ms), partition, from_ms, to_ms)
        for partition in history.partitions()
        for from_ms, to_ms in pairwise(_marks(deliveries, partition, evidence.provoked_ms, ended_ms))
    ]
    seconds = round(max((each[0] for each in stalls), default=0) / 1000, 1)
    limit_s = evidence.allows.stall_s
    found = [
        f"{evidence.topic}-{partition}: {stall_ms / 1000:.1f} s from {(from_ms - evidence.provoked_ms) / 1000:+.1f} s on:"
        f" {_meanwhile(deliveries, partition, from_ms, to_ms)}"
        for stall_ms, partition, from_ms, to_ms in sorted(stalls, reverse=True)
        if stall_ms > limit_s * 1000
    ]
    if found:
        text = f"no record of a partition was settled for {seconds:g} s; the event allows {limit_s:g} s"
        return broken(promise, text, found, seconds)
    behind = [
        f"{evidence.topic}-{partition}: {evidence.committed.get(partition, 0)} of {records[-1].offset + 1} are done with"
        for partition, records in sorted(evidence.inputs.items())
        if records and evidence.committed.get(partition, 0) <= records[-1].offset
    ]
    if evidence.settled_ms is None and behind:
        return broken(promise, "the group did not catch up", behind, seconds)
    return kept(
        promise, f"no partition stood still for more than {seconds:g} s; the event allows {limit_s:g} s", seconds
    )


def _settles_at_all(promise: str, history: History, deliveries: Deliveries) -> Finding:
    """For a program with which the event did not begin, because it settles no record of a partition."""
    evidence = history.evidence
    found = []
    for partition in history.partitions():
        sent_ms = min((each.at_ms for each in deliveries.sent[partition]), default=evidence.stopped_ms)
        waited_ms = evidence.stopped_ms - sent_ms
        if waited_ms > evidence.allows.stall_s * 1000 and not deliveries.settled(partition, ACCEPT, REJECT):
            meanwhile = _meanwhile(deliveries, partition, sent_ms, evidence.stopped_ms)
            found.append(
                f"{evidence.topic}-{partition}: {waited_ms / 1000:.1f} s since its first delivery: {meanwhile}"
            )
    if not found:
        return not_judged(promise, "the event was not provoked")
    return broken(promise, "records of a partition were delivered and never settled", found, evidence.allows.stall_s)


def _down_ms(history: History, from_ms: int, to_ms: int) -> int:
    return sum(max(0, min(to_ms, end) - max(from_ms, begin)) for begin, end in history.evidence.outages)


def _marks(deliveries: Deliveries, partition: int, from_ms: int, to_ms: int) -> Sequence[int]:
    """The start, if records had been delivered by then, the moments in which records were settled, and the end."""
    times = sorted({each.entry.time_ms for each in deliveries.settled(partition, ACCEPT, REJECT).values()})
    before = [from_ms] if any(each.at_ms <= from_ms for each in deliveries.sent[partition]) else []
    return [*before, *(each for each in times if from_ms < each <= to_ms), to_ms]


def _meanwhile(deliveries: Deliveries, partition: int, from_ms: int, to_ms: int) -> str:
    """What was delivered and acknowledged in this time."""
    sent = sum(each.last - each.first + 1 for each in deliveries.sent[partition] if from_ms <= each.at_ms <= to_ms)
    said = Counter(
        _NAMES.get(each.type, str(each.type)) if each.counts else each.error
        for each in deliveries.acknowledged[partition]
        if from_ms <= each.entry.time_ms <= to_ms
    )
    return f"{sent} records were delivered, " + (
        ", ".join(f"{count} {name}" for name, count in said.items()) if said else "none acknowledged"
    )

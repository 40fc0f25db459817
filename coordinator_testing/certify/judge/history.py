"""What the instances did, as far as the protocol shows it: what they were sent, what they committed, what they owned and when.

Times are when a request arrived at the server, unless their name says that they are those of an answer.
"""

import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from coordinator.rules.model import Entry
from coordinator_testing.certify.case import Evidence, TopicPartition
from coordinator_testing.certify.judge.entries import NONE, Row, cite, errors, generation, received, rows

DISOWNING = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH"})
"""Errors after which a member owns nothing."""
UNDER_WAY_MS = 3_000
"""For how long a process may go on with what it had polled, after a revocation, a pause, or a new join."""
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
COMMITS = ("OffsetCommit", "TxnOffsetCommit")
_JOINS = ("JoinGroup", "LeaveGroup")
_HEARTBEATS = ("ConsumerGroupHeartbeat",)
_OF_MEMBERS = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", *_HEARTBEATS)


class Fetched(NamedTuple):
    """Records of one partition that an instance received."""

    entry: Entry
    instance: int
    run: int
    first: int
    last: int


class Committed(NamedTuple):
    """An offset of one partition that an instance committed, and whether the coordinator accepted it."""

    entry: Entry
    instance: int
    run: int
    offset: int
    is_accepted: bool
    """Of a transaction: and whether the transaction was committed."""
    at_ms: int
    """When the offset counts: when the request arrived or, in a transaction, the request that ended it."""
    error: str


class Position(NamedTuple):
    """Where an instance may read from, as the server said: a committed offset, or one that ListOffsets found."""

    entry: Entry
    instance: int
    run: int
    offset: int
    is_committed: bool


class Owned(NamedTuple):
    """From this moment an instance owns a partition (it was assigned) or does not (it gave it up, or was disowned)."""

    at_ms: int
    entry: Entry
    instance: int
    owns: bool


class Processed(NamedTuple):
    """A testimony that a record was processed: a copy in the output topic, or a line of the program."""

    instance: int | None
    """None if nothing shows it; then `run` is, too."""
    run: int | None
    sent_ms: int | None
    """When the program sent it; None if nothing shows it."""
    at_ms: int | None
    """When it counts: when it was sent or, in a transaction, when the request arrived that ended it."""
    is_transactional: bool
    place: str


class History:
    """An index over the evidence."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._instances = {each.listener: each for each in evidence.instances}
        self._opened: dict[tuple[str, int, int], int] = {}
        """Listener, run of the server and connection -> when its first request arrived."""
        self.fetched: dict[int, list[Fetched]] = defaultdict(list)
        self.committed: dict[int, list[Committed]] = defaultdict(list)
        self.positions: dict[int, list[Position]] = defaultdict(list)
        self.unstable: dict[int, list[Entry]] = defaultdict(list)
        """Partition -> requests for its offset that were answered: a transaction has it open (KIP-447)."""
        self.rejoined: dict[tuple[int, int], list[int]] = defaultdict(list)
        """Instance and run -> when it asked to join."""
        self._ends: dict[int, list[Entry]] = defaultdict(list)
        """Producer id -> the requests that ended its transactions, in order."""
        self.own = [entry for entry in evidence.entries if entry.listener in self._instances]
        """The entries of the instances."""
        for entry in self.own:
            if entry.api == "EndTxn" and not errors(entry):
                self._ends[entry.request["producer_id"]].append(entry)
        for entry in self.own:
            self._index(entry)

    def instance_of(self, entry: Entry) -> int:
        return self._instances[entry.listener].index

    def run_of(self, entry: Entry) -> int:
        """The number of the instance's process that sent a request: the one that ran when its connection was first used.

        A busy server may read the last request of a process when the next one has already started.
        """
        runs = self._instances[entry.listener].runs
        server_run = sum(end <= entry.time_ms for _, end in self.evidence.outages)
        opened_ms = self._opened.setdefault((entry.listener, server_run, entry.connection), entry.time_ms)
        return max((number for number, run in enumerate(runs) if run.started_ms <= opened_ms), default=0)

    def run_key(self, entry: Entry) -> tuple[int, int]:
        """The instance and the number of its process that sent a request."""
        return self.instance_of(entry), self.run_of(entry)

    def may_be_under_way(self, commit: Committed) -> bool:
        """Whether the process had just joined again or been resumed, so that it may finish what it had polled before."""
        from_ms, to_ms = commit.entry.time_ms - UNDER_WAY_MS, commit.entry.time_ms
        resumed = (end for _, end in self._instances[commit.entry.listener].pauses)
        began = (*self.rejoined[commit.instance, commit.run], *resumed)
        return any(from_ms <= each <= to_ms for each in began)

    def was_killed(self, before_ms: int) -> bool:
        """Whether a process of an instance had been killed before: it leaves its transaction open."""
        runs = (run for each in self._instances.values() for run in each.runs)
        return any(run.exit_code == -signal.SIGKILL and (run.ended_ms or before_ms) < before_ms for run in runs)

    def is_other_log(self, partition: int, before: int, offset: int, at_ms: int) -> bool:
        """Whether the partition had lost its end by then, so that an offset that somebody knew `before` may be beyond records
        that follow from `offset` on.
        """
        return any(
            each.partition == partition
            and each.time_ms <= at_ms
            and each.end_offset <= offset
            and before <= each.former_end
            for each in self.evidence.truncations
        )

    def partitions(self) -> Sequence[int]:
        return sorted(self.evidence.inputs)

    def _index(self, entry: Entry) -> None:
        who = self.run_key(entry)
        if entry.api == "Fetch":
            for at, row in self._rows(received(entry)):
                if row.number("count") > 0:
                    found = Fetched(entry, *who, row.number("first_offset"), row.number("last_offset"))
                    self.fetched[at].append(found)
        elif entry.api in COMMITS and entry.request.get("group_id", self.evidence.group) == self.evidence.group:
            answers = {at: row.error for at, row in self._rows(entry.response)}
            at_ms = (
                entry.time_ms if entry.api == "OffsetCommit" else self._counts_ms(entry, entry.request["producer_id"])
            )
            for at, row in self._rows(entry.request):
                error = answers.get(at) or NONE
                accepted = answers.get(at) == NONE and at_ms is not None
                offset = row.number("committed_offset", "offset")
                self.committed[at].append(Committed(entry, *who, offset, accepted, at_ms or entry.time_ms, error))
        elif entry.api in ("OffsetFetch", "ListOffsets"):
            if UNSTABLE in errors(entry):
                # The other partitions of the request wait as well: a client repeats it as a whole.
                for at, _ in self._rows(entry.response):
                    self.unstable[at].append(entry)
            for at, row in self._rows(received(entry)):
                if row.error == NONE:
                    offset = row.number("committed_offset", "offset")
                    self.positions[at].append(Position(entry, *who, offset, entry.api == "OffsetFetch"))
        if entry.api == "JoinGroup" or (entry.api in _HEARTBEATS and generation(entry.request) == 0):
            self.rejoined[who].append(entry.time_ms)

    def _counts_ms(self, entry: Entry, producer_id: int | None) -> int | None:
        """When a request counts that is part of a transaction of this producer, if it is of one; None if that was aborted.

        An end that was not recorded, because the server was killed meanwhile, is taken to be that of the request.
        """
        if producer_id is None:
            return entry.time_ms
        # InitProducerId aborts, too: the next transaction has another epoch. A Produce shows none, but its copy was read.
        epoch = entry.request.get("producer_epoch")
        ends = (each for each in self._ends[producer_id] if epoch in (None, each.request["producer_epoch"]))
        end = next((each for each in ends if each.time_ms >= entry.time_ms), None)
        if end is not None:
            return end.time_ms if end.request["committed"] else None
        was_down = any(end_ms >= entry.time_ms for _, end_ms in self.evidence.outages)
        return entry.time_ms if was_down else None

    def _rows(self, message: object) -> Iterator[tuple[int, Row]]:
        for row in rows(message):
            if row.at.topic == self.evidence.topic:
                yield row.at.partition, row

    # --- what was processed -------------------------------------------------------------------------------------------

    @cached_property
    def processed(self) -> Mapping[tuple[int, int], list[Processed]] | None:
        """Partition and number -> the testimonies of a record, in order. None: nothing testifies."""
        if self.evidence.outputs is None and self.evidence.statements is None:
            return None
        found: dict[tuple[int, int], list[Processed]] = defaultdict(list)
        for key, each in (*self._copies(), *self._statements()):
            found[key].append(each)
        for testimonies in found.values():
            testimonies.sort(key=lambda each: each.at_ms or 0)
        return found

    def _statements(self) -> Iterator[tuple[tuple[int, int], Processed]]:
        runs = {each.index: each.runs for each in self.evidence.instances}
        for said in self.evidence.statements or ():
            run = None
            if said.instance is not None and said.time_ms is not None:
                started = [each.started_ms <= said.time_ms for each in runs[said.instance]]
                run = max(sum(started) - 1, 0)
            processed = Processed(said.instance, run, said.time_ms, said.time_ms, False, said.place)
            yield (said.partition, said.number), processed

    def _copies(self) -> Iterator[tuple[tuple[int, int], Processed]]:
        writers: dict[tuple[int, int], Entry] = {}
        for entry in self.own:
            if entry.api == "Produce":
                for row in rows(entry.response):
                    if row.at.topic == self.evidence.output_topic and row.error == NONE:
                        base = row.number("base_offset")
                        for offset in range(base, base + max(row.number("count"), 1)):
                            writers[row.at.partition, offset] = entry
        for each in self.evidence.outputs or ():
            writer = writers.get((each.output_partition, each.offset))
            is_transactional = each.producer_id is not None
            copy = Processed(None, None, None, None, is_transactional, f"offset {each.offset} of the output topic")
            if writer is not None:
                # What was read of a transaction was committed, by whichever request.
                at_ms = self._counts_ms(writer, each.producer_id) or writer.time_ms
                copy = Processed(*self.run_key(writer), writer.time_ms, at_ms, is_transactional, cite(writer))
            yield (each.partition, each.number), copy

    # --- ownership ----------------------------------------------------------------------------------------------------

    @cached_property
    def ownership(self) -> Mapping[int, list[Owned]]:
        """Partition -> changes of its ownership, in order, as the members could know them."""
        found: dict[int, list[Owned]] = defaultdict(list)
        everything = range(max(self.partitions(), default=-1) + 1)
        for entry in self.own:
            instance = self.instance_of(entry)
            for at_ms, owned, gave_up in self._changes(entry):
                for partition in everything:
                    if partition in owned:
                        found[partition].append(Owned(at_ms, entry, instance, owns=True))
                    elif gave_up:
                        found[partition].append(Owned(at_ms, entry, instance, owns=False))
        for changes in found.values():
            changes.sort(key=lambda change: change.at_ms)
        return found

    def _changes(self, entry: Entry) -> Iterator[tuple[int, set[int], bool]]:
        """When, the partitions that it owns then, and whether it owns no others."""
        if entry.api in _JOINS or (entry.api in _HEARTBEATS and entry.request.get("topic_partitions") is not None):
            yield entry.time_ms, {at for at, _ in self._rows(entry.request)}, True
        elif entry.api in _HEARTBEATS and (generation(entry.request) or 0) < 0:
            yield entry.time_ms, set(), True
        response = received(entry)
        if response is None:
            return
        answered_ms = entry.time_ms if entry.answered_ms is None else entry.answered_ms
        if entry.api in _OF_MEMBERS and errors(entry) & DISOWNING:
            yield answered_ms, set(), True
        elif entry.api == "SyncGroup" and not errors(entry):
            yield answered_ms, {at for at, _ in self._rows(response)}, True
        elif entry.api in _HEARTBEATS and response.get("assignment") is not None:
            yield answered_ms, {at for at, _ in self._rows(response)}, False


def place(evidence: Evidence, partition: int, offset: int) -> str:
    """How findings name a record."""
    return f"{TopicPartition(evidence.topic, partition)}@{offset}"

"""Counters kept in transactional offsets: workers increment them, and readers check the transactions (I10, for offsets).

A counter works like a small stream processor. A worker calls InitProducerId, reads the last committed value, and commits
the next value for two groups in one transaction; the groups may be on different shards. Two workers share each counter, and
each assumes that the other one is dead. If fencing leaves only one of them in charge at a time, then

    a value that was not committed is never read                       (aborted read)
    a read of stable offsets never misses a committed value            (lost write)
    each value is reached by one increment only                        (lost update: a zombie was not fenced)
    the worker in charge sees the same value in both groups            (torn transaction)

Each commit has a unique name as its metadata, so that a read shows which commit it sees. Workers use either protocol at
random: versions 0-4 of TxnOffsetCommit after AddOffsetsToTxn, or version 5, which adds the group implicitly (KIP-890). A
worker that gets no response starts over.

So does one that waits for too long: an open transaction that moves to a server whose wall clock is an hour behind stays open
for that hour, as in Kafka, unless a worker starts over.
"""

from dataclasses import dataclass

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from coordinator_lab.simulation.clients import ORDERS, RETRIABLE, Client, World
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.transaction_clients import INVARIANT, TIMEOUT_MS, Outcome
from coordinator_lab.simulation.wire import NoResponse

WORKERS = 2
"""Workers per counter."""
_RETRIABLE = RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_SERVER_ERROR}
_FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
}
_STABLE_WITHIN_S = 60.0
"""How long a reader waits for a stable offset, as a consumer (`default.api.timeout.ms`). Transactions time out far earlier."""
_KNOWS_ABORTABLE = 4
_ADDS_ITSELF = 5


class Fenced(Exception):
    """The other worker took over, or the transaction timed out: a commit that was not requested has not happened."""


@dataclass(slots=True)
class Increment:
    """An attempt to commit one value."""

    value: int
    outcome: Outcome = Outcome.OPEN


class CounterModel:
    """Everything that is known about one counter."""

    def __init__(self, number: int, broken: OnBroken) -> None:
        self.transactional_id = f"counter-{number}"
        self.groups = (f"counted-{number}-a", f"counted-{number}-b")
        self.known = -1
        """The highest value known to be committed; a read of stable offsets that begins now must not return less."""
        self.committed = 0
        self._steps: dict[str, Increment] = {}
        self._taken: dict[int, str] = {}
        """Value -> name of the increment that reached it."""
        self._broken = broken

    def step(self, value: int, worker: str) -> str:
        """Starts an increment to this value. Returns its name, which the commit must have as its metadata."""
        name = f"{worker} {len(self._steps)}"
        self._steps[name] = Increment(value)
        return name

    def asked(self, name: str) -> None:
        """Records that the commit of this increment is about to be requested."""
        self._steps[name].outcome = Outcome.ASKED

    def aborted(self, name: str) -> None:
        """Records that the increment was aborted, or that its commit was never requested."""
        self._steps[name].outcome = Outcome.ABORTED

    def was_committed(self, name: str, how: str) -> None:
        """Checks and records that the increment is committed. `how` names the evidence."""
        step = self._steps[name]
        if step.outcome in (Outcome.OPEN, Outcome.ABORTED):
            self._broken(INVARIANT, f"{self.transactional_id}: step {name!r} {how}, and it is {step.outcome.value}")
        step.outcome = Outcome.COMMITTED
        first = self._taken.setdefault(step.value, name)
        if first != name:
            self._broken(
                INVARIANT, f"{self.transactional_id}: {name!r} {how}, but {first!r} had already reached {step.value}"
            )
        self.known = max(self.known, step.value)

    def read(self, group: str, value: int, name: str, known: int) -> None:
        """Checks a stable offset that was read. `known` is the value of `self.known` before the request was sent."""
        where = f"{self.transactional_id}: {group} has {value} by {name!r}"
        if value < known:
            self._broken(INVARIANT, f"{where}, and {known} was committed before")
        if value < 0:
            return
        if name not in self._steps or self._steps[name].value != value:
            self._broken(INVARIANT, f"{where}, which was never committed")
        self.was_committed(name, f"was read in {group}")


class CounterReader(Client):
    """Reads stable offsets, whichever worker is in charge."""

    def __init__(self, world: World, count: CounterModel, name: str) -> None:
        super().__init__(world, f"{count.transactional_id}-{name}")
        self.count = count

    async def run(self) -> None:
        while True:
            await self.think()
            try:
                for group in self.random.sample(self.count.groups, 2):
                    await self.read(group)
            except NoResponse:
                continue

    def on_error(self, api: str, code: int) -> None:
        """Raises NoResponse for a retriable error; reports any other error."""
        if code not in _RETRIABLE:
            self.unexpected(api, code)
        raise NoResponse

    async def read(self, group: str) -> int:
        """The stable offset; -1 if there is none. Raises NoResponse, also if it is not stable in time."""
        version = self.random.choice([7, 8, 9])
        deadline_s = self.world.loop.time() + _STABLE_WITHIN_S
        while True:
            known = self.count.known
            if version == 7:
                asked = OffsetFetchRequest.OffsetFetchRequestTopic(ORDERS, [0])
                request = OffsetFetchRequest(group_id=group, topics=[asked], require_stable=True)
            else:
                topics = [OffsetFetchRequest.OffsetFetchRequestTopics(ORDERS, bytes(16), [0])]
                request = OffsetFetchRequest(
                    groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group, None, -1, topics)], require_stable=True
                )
            response = await self.call(request, version)
            answered = response if version == 7 else response.groups[0]
            if answered.error_code:
                self.on_error("OffsetFetch", answered.error_code)
            partition = answered.topics[0].partitions[0]
            if partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                if self.world.loop.time() > deadline_s:
                    raise NoResponse
                await self.think()
                continue
            if partition.error_code:
                self.on_error("OffsetFetch", partition.error_code)
            self.count.read(group, partition.committed_offset, partition.metadata or "", known)
            return int(partition.committed_offset)


class CounterWorker(CounterReader):
    """One of the two workers of a counter."""

    def __init__(self, world: World, count: CounterModel, number: int) -> None:
        super().__init__(world, count, f"worker-{number}")
        self.answered_s = -1.0
        """When it last committed an increment (loop time)."""
        self._gives_way = number > 0
        """Whether it stops in the liveness phase, so that the other worker can make progress."""
        self._producer_id = -1
        self._epoch = -1
        self._version = 0
        """The version of TxnOffsetCommit, which also decides the transaction protocol."""

    async def run(self) -> None:
        while not (self._gives_way and self.world.is_healed):
            await self.think()
            try:
                await self._init_producer_id()
                for _ in range(self.random.randint(1, 6)):
                    await self._increment()
                    await self.think()
            except (NoResponse, Fenced):
                continue

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.count.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        response = await self.call(request, self.random.randrange(0, 6))
        self._check_error("InitProducerId", response.error_code)
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._version = self.random.choice([0, 2, 3, 4, 5, 5, 5])

    def _check_error(self, api: str, code: int) -> None:
        """Raises Fenced or NoResponse for an error."""
        if code == ErrorCode.NONE:
            return
        if code in _FENCED:
            raise Fenced
        self.on_error(api, code)

    async def _increment(self) -> None:
        first, second = [await self.read(group) for group in self.count.groups]
        value = max(first, second) + 1
        name = self.count.step(value, self.name)
        try:
            await self._commit_offsets(value, name)
            if self.random.random() < 0.2:
                await self._end(committed=False)
                self.count.aborted(name)
                return
        except (NoResponse, Fenced):
            self.count.aborted(name)
            raise
        self.count.asked(name)
        try:
            await self._end(committed=True)
        except Fenced:
            self.count.aborted(name)
            raise
        self.count.was_committed(name, "was acknowledged")
        self.count.committed += 1
        self.answered_s = self.world.loop.time()
        if first != second:
            self.world.broken(INVARIANT, f"{self.name}: the groups had {first} and {second} while it was in charge")

    async def _commit_offsets(self, value: int, name: str) -> None:
        """Adds the value to the transaction for both groups, in random order."""
        for group in self.random.sample(self.count.groups, 2):
            if self._version < _ADDS_ITSELF:
                await self._add(group)
            partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, value, -1, name)
            request = TxnOffsetCommitRequest(
                transactional_id=self.count.transactional_id,
                group_id=group,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(ORDERS, bytes(16), [partition])],
            )
            response = await self.call(request, self._version)
            code = response.topics[0].partitions[0].error_code
            if code == ErrorCode.TRANSACTION_ABORTABLE and self._version < _KNOWS_ABORTABLE:
                self.unexpected("TxnOffsetCommit", code)
            self._check_error("TxnOffsetCommit", code)

    async def _add(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.count.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=group,
        )
        while True:
            response = await self.call(request, min(self._version, 4))
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._check_error("AddOffsetsToTxn", response.error_code)
                return
            await self.think()

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.count.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        response = await self.call(request, self._version)
        self._check_error("EndTxn", response.error_code)
        if self._version >= _ADDS_ITSELF:
            self._producer_id, self._epoch = response.producer_id, response.producer_epoch

"""Workers whose transactions commit offsets, and what they hold the groups to (I10, for offsets).

A counter is the loop of a stream processor in small: it begins its transactional id anew, reads what was committed last, and
commits one more, of two groups in one transaction, which may live on different shards. Two workers share each counter, and
each believes that the other is dead. If only one of them can be right at a time, then

    what was not committed is never read                               (aborted read)
    what was committed is never missing from a read of stable offsets  (lost write)
    each step is taken once: nobody takes a step from an old value     (lost update: a zombie got through)
    both groups have the same, as the owner of the id sees them        (torn transaction)

Every commit has a name, its metadata, by which a read tells whose it is. They speak either protocol, as they please: v0-4 of
TxnOffsetCommit after AddOffsetsToTxn, or v5, which adds its group itself. A worker that loses an answer begins anew.
"""

from dataclasses import dataclass
from enum import Enum

from coordinator.faults.clients import ORDERS, RETRIABLE, Client, World
from coordinator.faults.history import OnBroken
from coordinator.faults.wire import NoResponse
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)

INVARIANT = "I10 transactions"
TIMEOUT_MS = 15_000
WORKERS = 2
"""Of one counter."""
_RETRIABLE = RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_SERVER_ERROR}
_FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
}
_KNOWS_ABORTABLE = 4
_ADDS_ITSELF = 5


class Fenced(Exception):
    """The other worker has the id now, or the transaction timed out: what was not asked for is not done."""


class Outcome(Enum):
    """What became of a step, as far as anybody knows."""

    OPEN = "open"
    ASKED = "asked to commit"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Increment:
    """An attempt at one value."""

    value: int
    outcome: Outcome = Outcome.OPEN


class CounterModel:
    """What is known of one counter."""

    def __init__(self, number: int, broken: OnBroken) -> None:
        self.transactional_id = f"counter-{number}"
        self.groups = (f"counted-{number}-a", f"counted-{number}-b")
        self.known = -1
        """A value that is known to be committed; no read of stable offsets that begins now may show less."""
        self.committed = 0
        self._steps: dict[str, Increment] = {}
        self._taken: dict[int, str] = {}
        """Value -> the step by which it came."""
        self._broken = broken

    def step(self, value: int, worker: str) -> str:
        """Somebody is about to commit this value; the name is to be its metadata."""
        name = f"{worker} {len(self._steps)}"
        self._steps[name] = Increment(value)
        return name

    def asked(self, name: str) -> None:
        self._steps[name].outcome = Outcome.ASKED

    def aborted(self, name: str) -> None:
        self._steps[name].outcome = Outcome.ABORTED

    def was_committed(self, name: str, how: str) -> None:
        step = self._steps[name]
        if step.outcome in (Outcome.OPEN, Outcome.ABORTED):
            self._broken(INVARIANT, f"{self.transactional_id}: step {name!r} {how}, and it is {step.outcome.value}")
        step.outcome = Outcome.COMMITTED
        first = self._taken.setdefault(step.value, name)
        if first != name:
            self._broken(
                INVARIANT, f"{self.transactional_id}: {name!r} {how}, but {first!r} took the step to {step.value}"
            )
        self.known = max(self.known, step.value)

    def read(self, group: str, value: int, name: str, known: int) -> None:
        """A stable offset was read; `known` is from before it was asked for."""
        where = f"{self.transactional_id}: {group} has {value} by {name!r}"
        if value < known:
            self._broken(INVARIANT, f"{where}, and {known} was committed before")
        if value < 0:
            return
        if name not in self._steps or self._steps[name].value != value:
            self._broken(INVARIANT, f"{where}, which nobody has committed")
        self.was_committed(name, f"was read in {group}")


class CounterReader(Client):
    """Reads stable offsets, whoever has the id at the moment."""

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

    def on_error(self, what: str, code: int) -> None:
        """Raises Lost for an error that may be."""
        if code not in _RETRIABLE:
            self.unexpected(what, code)
        raise NoResponse

    async def read(self, group: str) -> int:
        """The stable offset; -1 for none."""
        version = self.random.choice([7, 8, 9])
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
                await self.think()
                continue
            if partition.error_code:
                self.on_error("OffsetFetch", partition.error_code)
            self.count.read(group, partition.committed_offset, partition.metadata or "", known)
            return int(partition.committed_offset)


class CounterWorker(CounterReader):
    """One of the workers of a count."""

    def __init__(self, world: World, count: CounterModel, number: int) -> None:
        super().__init__(world, count, f"worker-{number}")
        self.answered_s = -1.0
        """When a step of its own was last committed."""
        self._gives_way = number > 0
        """In the end one of them has the id to itself."""
        self._producer_id = -1
        self._epoch = -1
        self._version = 0
        """Of TxnOffsetCommit."""

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

    def _check_error(self, what: str, code: int) -> None:
        """Raises what follows from an error."""
        if code == ErrorCode.NONE:
            return
        if code in _FENCED:
            raise Fenced
        self.on_error(what, code)

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
            self.world.broken(INVARIANT, f"{self.name}: the groups had {first} and {second} while it had the id")

    async def _commit_offsets(self, value: int, name: str) -> None:
        """Of both groups, in any order."""
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

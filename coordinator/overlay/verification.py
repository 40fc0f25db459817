"""Whether a group's partition is in a transaction, as the cluster's coordinator says, before offsets become pending here.

    TxnOffsetCommit before v5    the client has sent AddOffsetsToTxn to the cluster: DescribeTransactions shows the partition
    from v5 on                   it has not; Kafka's group coordinator adds the partition itself, and here this server does

Afterwards the next marker of the producer must be that of this transaction. An earlier one may be in the cluster's log that
was not read yet, with the same producer id and, before v5, the same epoch. So the offsets become pending when the partition was
read up to an end at which the earlier transaction is complete:

    before v5    the end when the request arrives: the client could only add the partition after the earlier one was complete
    from v5 on   the end after the addition, which the cluster refuses until then; meanwhile the client need not wait

If this transaction has ended by then, the request comes too late, and is refused.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from coordinator.client.conversation import LinkFailed
from coordinator.overlay.brokers import Brokers
from coordinator.overlay.markers import Reader, Readers
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AddOffsetsToTxnRequest,
    Answer,
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    Request,
)
from coordinator.runtime.result import Producer
from coordinator.topics.names import CONSUMER_OFFSETS
from coordinator.transactions.verification import ADD_RETRY_MS, ADD_RETRY_MS_MAX, Refused, error_for_client

VERIFY_S = 5.0
"""How long a verification may take in all."""
COORDINATORS_MAX = 10_000
"""Transactional ids whose coordinator is remembered."""
_TRANSACTION = 1
_SINGLE_KEY = 3
_OPEN, _ENDING = "Ongoing", frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class ClusterVerification:
    """Asks the cluster's coordinators (as transactions/verification.py asks those of this server)."""

    needs_guard = False

    def __init__(self, brokers: Brokers, readers: Readers) -> None:
        self._brokers = brokers
        self._readers = readers
        self._coordinators: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def check(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Mapping[str, Sequence[int]],
        adds: bool,
        done: Callable[[Refused], None],
        *,
        abortable: bool = True,
    ) -> None:
        """As `Verification.check`, for one partition of `__consumer_offsets`."""
        [index] = partitions[CONSUMER_OFFSETS]
        reader = self._readers.of[index]
        if not reader.is_ready:
            done({})  # the shard refuses it
            return

        async def run() -> None:
            try:
                async with asyncio.timeout(VERIFY_S):
                    error = await (self._add if adds else self._find)(transactional_id, producer, reader)
            except (LinkFailed, TimeoutError):
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            # Nothing is awaited from here on: what was read up to now is what the shard knows.
            error = error_for_client(error, abortable=abortable)
            done({} if error is ErrorCode.NONE else {(CONSUMER_OFFSETS, index): error})

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _find(self, transactional_id: str, producer: Producer, reader: Reader) -> ErrorCode:
        await reader.begin()
        end = await reader.end_offset()
        error = await self._verify(transactional_id, producer, reader.index)
        if error is not ErrorCode.NONE:
            return error
        await reader.reach(end, VERIFY_S)
        if reader.has_ended(producer.id, since_offset=end):
            return ErrorCode.INVALID_TXN_STATE
        reader.store(end)
        return ErrorCode.NONE

    async def _add(self, transactional_id: str, producer: Producer, reader: Reader) -> ErrorCode:
        await reader.begin()
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=reader.group_id,  # its partition is that of the group
        )
        waited_ms = 0
        while True:
            response = await self._ask(transactional_id, request)
            error = ErrorCode(response.error_code)
            if error is not ErrorCode.CONCURRENT_TRANSACTIONS or waited_ms >= ADD_RETRY_MS_MAX:
                break
            waited_ms += ADD_RETRY_MS
            await asyncio.sleep(ADD_RETRY_MS / 1000)
        if error is not ErrorCode.NONE:
            return self._moved(transactional_id, error)
        end = await reader.end_offset()
        await reader.reach(end, VERIFY_S)
        if reader.has_ended(producer.id, above_epoch=producer.epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        reader.store(end)
        return ErrorCode.NONE

    async def _verify(self, transactional_id: str, producer: Producer, index: int) -> ErrorCode:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        response = await self._ask(transactional_id, request)
        [found] = response.transaction_states
        error = ErrorCode(found.error_code)
        if error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if error is not ErrorCode.NONE:
            return self._moved(transactional_id, error)
        if found.producer_id != producer.id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if found.producer_epoch != producer.epoch:
            return ErrorCode.PRODUCER_FENCED
        if found.transaction_state in _ENDING:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        is_in_it = any(topic.topic == CONSUMER_OFFSETS and index in topic.partitions for topic in found.topics)
        is_open = found.transaction_state == _OPEN and is_in_it
        return ErrorCode.NONE if is_open else ErrorCode.TRANSACTION_ABORTABLE

    async def _ask(self, transactional_id: str, request: Request[Answer]) -> Answer:
        """Asks the coordinator of a transactional id. Raises LinkFailed."""
        coordinator = self._coordinators.get(transactional_id)
        if coordinator is None:
            found = await self._brokers.ask_any(
                FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION), version_max=_SINGLE_KEY
            )
            if found.error_code:
                raise LinkFailed(f"{transactional_id}: {ErrorCode(found.error_code).name}")
            coordinator = self._coordinators[transactional_id] = found.node_id
            if len(self._coordinators) > COORDINATORS_MAX:
                del self._coordinators[next(iter(self._coordinators))]
        try:
            return await self._brokers.ask(coordinator, request)
        except LinkFailed:
            self._coordinators.pop(transactional_id, None)
            raise

    def _moved(self, transactional_id: str, error: ErrorCode) -> ErrorCode:
        """The error for the client; the coordinator is looked up again if it has moved."""
        if error in _MOVED:
            self._coordinators.pop(transactional_id, None)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    async def stop(self) -> None:
        """Ends what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

"""The records of `__transaction_state`, in Kafka's format (TransactionLog).

The key has type 0; the value has version 0, or 1 (flexible) from transaction.version 1 on. Version 0 has no fields for the
previous and next producer ids and the client's version. They are lost when such a record is written, also in memory, because
the state in memory is a replay of the record.
"""

from coordinator.protocol.codec import DecodeError
from coordinator.protocol.messages import TransactionLogKey, TransactionLogValue
from coordinator.runtime.result import Record
from coordinator.transactions.transaction import Partition, State, Transaction

FLEXIBLE_SINCE = 1
_STATES = {state.value: state for state in State}
_NO_PARTITIONS: frozenset[Partition] = frozenset()


def transaction_record(transaction: Transaction, transaction_version: int) -> Record:
    """The record with the complete state of a transactional id."""
    topics: list[TransactionLogValue.PartitionsSchema] | None = None
    if transaction.state is not State.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        topics = [TransactionLogValue.PartitionsSchema(topic, indexes) for topic, indexes in by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=topics,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    key = TransactionLogKey(transaction.transactional_id)
    if transaction_version < FLEXIBLE_SINCE:
        return Record(key, value, 0)
    value.previous_producer_id = transaction.previous_producer_id
    value.next_producer_id = transaction.next_producer_id
    value.client_transaction_version = transaction.client_version
    return Record(key, value, 1)


def tombstone(transactional_id: str) -> Record:
    return Record(TransactionLogKey(transactional_id), None)


def from_record(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """The transaction that a record describes. Raises DecodeError for an unknown state."""
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise DecodeError(f"{key.transactional_id}: unknown transaction state {value.transaction_status}")
    partitions = _NO_PARTITIONS
    if value.transaction_partitions and state is not State.EMPTY:
        partitions = frozenset(
            (schema.topic, index) for schema in value.transaction_partitions for index in schema.partition_ids
        )
    return Transaction(
        key.transactional_id,
        value.producer_id,
        value.previous_producer_id,
        value.next_producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
    )

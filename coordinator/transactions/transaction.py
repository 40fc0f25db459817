"""The state of one transactional id: its producer, and its current or last transaction (Kafka's TransactionMetadata).

    Empty ----------.                                        an id that has no transaction yet, or was initialized again
    CompleteCommit --+--> Ongoing --> PrepareCommit --> CompleteCommit
    CompleteAbort --'         '-----> PrepareAbort  --> CompleteAbort
          '---------------------------^                      (version 2: an abort of nothing, which bumps the epoch)

A prepared transaction is decided: its markers are being delivered, again after every restart, until it is complete. Kafka has
a second, *pending* state beside the durable one, for the time in which a record is being written. It is not needed here: a
record takes effect at once and the response waits for the disk. Requests that Kafka refuses because a transition is pending
are refused here in the prepared states.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 32_767
EPOCH_EXHAUSTED = EPOCH_MAX - 1
"""The last epoch that a client ever sees. One more is reserved, so that a producer can always be fenced."""
NEVER_TIMES_OUT_MS = 2_147_483_647
"""Kafka's time-out of a transaction that an external coordinator ends (KIP-939)."""

Partition = tuple[str, int]
"""A topic and the index of a partition."""

EPOCH_BUMPS_SINCE = 2
"""The `transaction.version` from which each end of a transaction gives a new epoch (KIP-890)."""


class State(IntEnum):
    """The state, with Kafka's numbers in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Never used by this server: an expired id gets a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """Never used by this server: in Kafka the state between two steps of an abort."""


NAMES: Mapping[State, str] = MappingProxyType(
    {state: "".join(word.capitalize() for word in state.name.split("_")) for state in State}
)
"""The names that Kafka's tools show."""

BY_NAME: Mapping[str, State] = MappingProxyType({name: state for state, name in NAMES.items()})

PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
RESTING = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


@dataclass(slots=True)
class Transaction:
    """A value: it is never changed in place; a record replaces it by another one."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    """The producer id before the last change. It differs from `producer_id` after an exhausted id was replaced."""
    next_producer_id: int
    """While prepared: the id that will replace an exhausted one when the transaction is complete."""
    epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[Partition]
    start_ms: int
    """Wall clock; -1 before the first transaction."""
    update_ms: int
    client_version: int
    """The `transaction.version` of the client that caused the last change: 2 if it takes new epochs, else 0."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.epoch >= EPOCH_EXHAUSTED

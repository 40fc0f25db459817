"""What is known of one transactional id: its producer, and the state of its current or last transaction.

    Empty ----------.                                        an id that has no transaction yet, or was initialized anew
    CompleteCommit --+--> Ongoing --> PrepareCommit --> CompleteCommit
    CompleteAbort --'         '-----> PrepareAbort  --> CompleteAbort
          '---------------------------^                      (version 2: an abort of nothing, which bumps the epoch)

A prepared transaction is decided: its markers are on their way, again after every restart, until it is complete. Kafka keeps
a second, *pending* state beside the durable one, for the time in which a record is being written. There is none here: a record
takes effect at once and the answer waits for the disk, so what Kafka answers while it waits for the completion is
what is answered in a prepared state.
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
"""The last epoch a client ever sees: one more is kept back, so that a producer can always be fenced."""
NEVER_TIMES_OUT_MS = 2_147_483_647
"""Kafka's mark of a transaction that an outside coordinator ends (KIP-939)."""

Partition = tuple[str, int]
"""Topic and index."""

EPOCH_BUMPS_SINCE = 2
"""The `transaction.version` from which each end of a transaction gives a new epoch (KIP-890)."""


class State(IntEnum):
    """The state as it is in the log, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Never in the log of this server: an expired id is a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """As above: in Kafka the moment between two steps of an abort."""


NAMES: Mapping[State, str] = MappingProxyType(
    {state: "".join(word.capitalize() for word in state.name.split("_")) for state in State}
)
"""As Kafka's tools show them."""

BY_NAME: Mapping[str, State] = MappingProxyType({name: state for state, name in NAMES.items()})

PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
RESTING = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


@dataclass(slots=True)
class Transaction:
    """A value: it is never changed, a record replaces it by another one."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    """The producer id before the last change; another one after an exhausted id was replaced."""
    next_producer_id: int
    """While prepared: the id that replaces an exhausted one when the transaction is complete."""
    epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[Partition]
    start_ms: int
    """Wall clock; -1 before the first transaction."""
    update_ms: int
    client_version: int
    """The `transaction.version` of the client that made the last change: 2 if it takes new epochs, else 0."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.epoch >= EPOCH_EXHAUSTED

"""How commands reach the engine of workers (docs/scale-out.md)."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import (
    Engine,
    EngineRefused,
    EngineSettings,
    EngineUnavailable,
    Fenced,
    OutcomeUnknown,
)
from coordinator.log.batch import CorruptBatch
from coordinator.topics.names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    COORDINATOR_EVENTS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)

T = TypeVar("T")
VARIABLE = "COORDINATOR_JOURNAL"
FROM_VARIABLE = "-"
"""Stands for the address in the variable, because other users of a machine see command lines."""
TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS, SHARE_GROUP_STATE, COORDINATOR_EVENTS, CLUSTER_METADATA)
"""The topics whose logs are in a journal, in the order in which running workers are read: markers of a transaction that ends
meanwhile are sent again, no group knows share partitions without a state, and no state is without its events."""


class JournalFailed(Exception):
    """The journal cannot be read or written. The text is one line for the user."""


class JournalUnavailable(JournalFailed):
    """The journal did not answer; it may answer later."""


def topic_of(log: str) -> str:
    """The topic of a log; empty for a log that is not a partition."""
    topic, _, number = log.rpartition("-")
    return topic if topic in TOPICS and number.isdecimal() else ""


def shown_address(address: str) -> str:
    """The address for people: without its passwords. Raises JournalFailed."""
    return str(_resolved(address))


def _resolved(address: str) -> EngineAddress:
    if address == FROM_VARIABLE:
        address = os.environ.get(VARIABLE, "")
        if not address:
            raise JournalFailed(f"--journal {FROM_VARIABLE}: the variable {VARIABLE} is not set")
    return EngineAddress(address)


def with_engine(address: str, settings: EngineSettings, action: Callable[[Engine], Awaitable[T]]) -> T:
    """What an action with the engine of this address returns. Raises JournalFailed, JournalUnavailable, OSError."""
    named = _resolved(address)

    async def run() -> T:
        engine = engine_for(named, settings)
        await engine.open()
        try:
            return await action(engine)
        finally:
            await engine.close()

    try:
        return asyncio.run(run())
    except EngineUnavailable as error:
        raise JournalUnavailable(str(error)) from error
    except (EngineRefused, Fenced, OutcomeUnknown, CorruptBatch) as error:
        raise JournalFailed(str(error)) from error

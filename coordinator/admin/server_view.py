"""What the admin routes read of the server. They only read; this is all of it."""

from collections.abc import Sequence
from typing import Any, Protocol

from coordinator.groups.groups import Groups
from coordinator.network.listener import Listener
from coordinator.runtime.memory import Memory
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Shard
from coordinator.runtime.statistics import Statistics
from coordinator.topics.engine import Topics
from coordinator.transactions.transactions import Transactions


class Served(Protocol):
    """The running server, as the admin sees it (server.py)."""

    @property
    def groups(self) -> Router[Groups]: ...
    @property
    def transactions(self) -> Router[Transactions]: ...
    @property
    def shards(self) -> Sequence[Shard[Any]]:
        """Of groups and of transactions."""
        ...

    @property
    def listeners(self) -> Sequence[Listener]: ...
    @property
    def statistics(self) -> Statistics: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def stopping(self) -> bool:
        """Whether it drains: it takes no new connections."""
        ...

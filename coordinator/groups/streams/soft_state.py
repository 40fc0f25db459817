"""The soft state of a streams group: its topology as the topics allow it, and its members' last reports.

Who may change it, and when it is lost: epochs/soft_state.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from coordinator.groups.epochs.soft_state import SoftState
from coordinator.groups.settings import StreamsSettings
from coordinator.groups.streams.committer import Committers
from coordinator.groups.streams.configure import Configured
from coordinator.groups.streams.member import StreamsMember
from coordinator.runtime.result import Result


@dataclass(frozen=True, slots=True)
class TaskOffsets:
    """How far a member has got with the changelogs of its tasks, summed up by task, as it last reported."""

    offsets: Mapping[str, Mapping[int, int]]
    """Subtopology id -> number of a task -> offset."""
    end_offsets: Mapping[str, Mapping[int, int]]

    @property
    def size(self) -> int:
        """The number of subtopologies and tasks in it."""
        return size_of_offsets(self.offsets) + size_of_offsets(self.end_offsets)


def size_of_offsets(offsets: Mapping[str, Mapping[int, int]]) -> int:
    """The number of subtopologies and tasks in it."""
    return len(offsets) + sum(map(len, offsets.values()))


NO_TASK_OFFSETS = TaskOffsets({}, {})


class CachedHeartbeat(NamedTuple):
    """The answer to a member that has nothing to say and nothing to hear, and all that it depends on (heartbeat.py)."""

    result: Result
    member: StreamsMember
    settings: StreamsSettings
    api_version: int


class StreamsSoftState(SoftState):
    """The memory of a streams group beyond its log."""

    __slots__ = (
        "committers", "configured", "configured_version", "endpoint_epoch", "is_delayed", "shutdown_by", "task_offsets",
    )  # fmt: skip

    cached_heartbeats: dict[str, CachedHeartbeat]

    def __init__(self) -> None:
        super().__init__()
        self.configured: Configured | None = None
        """The topology as the topics allow it, as they were in version `configured_version` of the topic catalog."""
        self.configured_version: int | None = None
        self.task_offsets: dict[str, TaskOffsets] = {}
        """By member id."""
        self.shutdown_by: str | None = None
        """The member that wants the whole application to stop; forgotten with the last member."""
        self.endpoint_epoch = 0
        """Raised when the tasks of a member with an endpoint change. A member whose request has another is sent all."""
        self.is_delayed = False
        """The first target is put off, so that it includes all members that start at the same time."""
        self.committers: Committers = {}

    def take_over(self, uncommitted: Self) -> None:
        super().take_over(uncommitted)
        self.configured = uncommitted.configured
        self.configured_version = uncommitted.configured_version
        self.task_offsets = uncommitted.task_offsets
        self.shutdown_by = uncommitted.shutdown_by
        self.is_delayed = uncommitted.is_delayed

    def on_member_removed(self, member_id: str) -> None:
        super().on_member_removed(member_id)
        self.committers.pop(member_id, None)

    def on_topology_changed(self, *, is_first: bool) -> None:
        """`is_first`: there was none before. The operation that wrote it has configured it already."""
        self.committers.clear()
        if not is_first:
            self.configured = None
            self.configured_version = None

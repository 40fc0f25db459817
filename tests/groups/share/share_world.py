"""A minimal world of share groups: a shard (groups/harness.py), and a share coordinator that answers when a test wants it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from coordinator.groups.machine import GroupMachine
from coordinator.groups.share.heartbeat import share_group_heartbeat
from coordinator.groups.share.update import topics_deleted
from coordinator.groups.share_states import SharePartition, ShareStates
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ShareGroupHeartbeatRequest
from coordinator.requests import share_group_heartbeat as heartbeat_api
from tests.groups.harness import GroupHarness, SentRequest

INTERVAL_MS = 1_000
SESSION_MS = 45_000


class States(ShareStates):
    """A share coordinator. It answers at once, unless `is_slow`."""

    def __init__(self) -> None:
        self.is_slow = False
        self.error = ErrorCode.NONE
        self.asked: list[tuple[str, int, dict[SharePartition, int]]] = []
        """Group, state epoch and start offsets of each request."""
        self.deleted: list[tuple[str, list[SharePartition]]] = []
        self._waiting: list[Callable[[ErrorCode], None]] = []

    def initialize(
        self,
        group_id: str,
        state_epoch: int,
        start_offsets: Mapping[SharePartition, int],
        done: Callable[[ErrorCode], None],
    ) -> None:
        self.asked.append((group_id, state_epoch, dict(start_offsets)))
        if self.is_slow:
            self._waiting.append(done)
        else:
            done(self.error)

    def delete(self, group_id: str, partitions: Collection[SharePartition]) -> None:
        self.deleted.append((group_id, list(partitions)))

    def answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(self.error)


class ShareHarness(GroupHarness):
    """A shard with the topics t (4 partitions) and u (1); by default without an assignment interval."""

    def __init__(self, topics: Mapping[str, int] | None = None, **config: Any) -> None:
        self.states = States()
        super().__init__(
            {"t": 4, "u": 1} if topics is None else topics, **{"group_share_assignment_interval_ms": 0} | config
        )

    def _loaded(self, records: Any) -> GroupMachine:
        groups = super()._loaded(records)
        groups.share_states = self.states
        return groups

    def beat(
        self,
        member_id: str = "m",
        epoch: int = 0,
        topics: Collection[str] | None = None,
        *,
        group_id: str = "g",
        rack: str | None = None,
        **how: Any,
    ) -> SentRequest:
        names = None if topics is None else list(topics)
        request = ShareGroupHeartbeatRequest(group_id, member_id, epoch, rack, names)
        return self.call(share_group_heartbeat, request, 1, heartbeat_api.API, **how)

    def arrive(self, member_id: str = "m", topics: Collection[str] = ("t",)) -> SentRequest:
        """A complete join."""
        return self.beat(member_id, 0, topics)

    def settle(self) -> None:
        """All members send heartbeats until nothing changes any more."""
        while True:
            count = len(self.records)
            for member_id, member in list(self.group().members.items()):
                assert self.beat(member_id, member.member_epoch).ok
            if len(self.records) == count:
                return

    def delete_topic(self, name: str) -> None:
        topic_id = self.catalog.topic_id(name)
        assert topic_id is not None
        self.catalog.remove(name)
        self._apply(topics_deleted({name: topic_id}, self.groups, self.now_ms))

    def held(self, member_id: str = "m") -> dict[str, list[int]]:
        """Topic name -> partitions of a member."""
        name = self.catalog.topic_name
        assigned = self.group().members[member_id].assigned
        return {name(topic_id) or "": sorted(numbers) for topic_id, numbers in assigned.items()}

    def kinds(self, since: int = 0) -> list[str]:
        """The types of the records written since then; tombstones have a minus."""
        return [("-" if record.value is None else "") + str(record.key.API_KEY) for record in self.records[since:]]


def assigned_in(request: SentRequest) -> dict[bytes, list[int]] | None:
    """The partitions in an answer; None if it has none."""
    found = request.reply.assignment
    return None if found is None else {each.topic_id: each.partitions for each in found.topic_partitions}

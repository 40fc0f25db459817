"""The state machine of one shard: its groups and their committed offsets.

    operation(groups, request, call, now_ms) -> Result      groups/<kind>/<operation>.py
    groups.replay(record)                                   the only way the durable state changes
    groups.loaded(now_ms), groups.fire(key, now_ms)         time

There is no operation here, only what belongs to all groups: which record goes to which `replay` function, which timer to which
`fire` function, and when a group is there at all. A group is there as long as anything is known of it: a record in the log,
an offset, or a round of members.
"""

from collections.abc import Callable
from typing import Any, Protocol

from coordinator.groups.classic import timeouts
from coordinator.groups.classic.group import ClassicGroup, State
from coordinator.groups.classic.replay import replay_group_metadata, resume_all
from coordinator.groups.offsets import expire
from coordinator.groups.offsets.replay import replay_legacy_offset_commit, replay_offset_commit
from coordinator.groups.offsets.store import Offsets
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.messages import GroupMetadataKey, LegacyOffsetCommitKey, Message, OffsetCommitKey
from coordinator.runtime.result import Record, Result, TimerKey


class Catalog(Protocol):
    """The topics, as far as groups need to know them."""

    def topic_id(self, name: str) -> bytes | None: ...
    def topic_name(self, topic_id: bytes) -> str | None: ...
    def partition_count(self, name: str) -> int | None: ...


class Groups:
    """The groups of one shard. Handlers read `classic` and `offsets` freely and change only the rounds in `classic`."""

    __slots__ = ("catalog", "classic", "config", "offsets")

    def __init__(self, config: GroupsConfig, catalog: Catalog) -> None:
        self.config = config
        self.catalog = catalog
        self.classic: dict[str, ClassicGroup] = {}
        """Simple groups (offsets only) are classic groups without members."""
        self.offsets = Offsets()

    def replay(self, record: Record) -> None:
        """Takes a record into the durable state. Record types of other group kinds are passed over."""
        replay = REPLAY.get(type(record.key))
        if replay is not None:
            replay(self, record.key, record.value)

    def loaded(self, now_ms: int) -> Result:
        """Every record of the log was replayed: starts the rounds and the timers."""
        result = resume_all(self, now_ms)
        result.timers = [*result.timers, expire.first_timer(self)]
        return result

    def fire(self, key: TimerKey, now_ms: int) -> Result:
        return FIRE[key[0]](self, key, now_ms)

    def classic_or_simple(self, group_id: str) -> ClassicGroup:
        """The group; a simple one is made if nothing was known of it."""
        group = self.classic.get(group_id)
        if group is None:
            group = self.classic[group_id] = ClassicGroup(group_id, None)
        return group

    def delete(self, group_id: str) -> None:
        """Forgets a group without members; if it has offsets, a simple group is left."""
        group = self.classic.pop(group_id, None)
        assert group is None or not group.members, f"{group_id} has members"
        if group_id in self.offsets.by_group:
            self.classic_or_simple(group_id)

    def forget_if_nothing_is_known(self, group_id: str) -> None:
        """Ends a simple group that lost its last offset."""
        group = self.classic.get(group_id)
        if group is None or group.stored is not None or group_id in self.offsets.by_group:
            return
        if group.state is State.EMPTY and not group.pending_joins:
            del self.classic[group_id]


REPLAY: dict[type[Message], Callable[[Groups, Any, Any], None]] = {
    GroupMetadataKey: replay_group_metadata,
    OffsetCommitKey: replay_offset_commit,
    LegacyOffsetCommitKey: replay_legacy_offset_commit,
}
"""Record key -> what its record does."""

FIRE: dict[Any, Callable[[Groups, TimerKey, int], Result]] = {
    "classic-session": timeouts.fire_session,
    "classic-pending": timeouts.fire_pending,
    "classic-join": timeouts.fire_join,
    "classic-sync": timeouts.fire_sync,
    expire.TIMER[0]: lambda groups, _, now_ms: expire.fire(groups, now_ms),
}
"""First item of a timer's key -> what it does when it fires."""

RECORD_KEYS: tuple[str, ...] = tuple(key.NAME for key in REPLAY)
"""The key messages that a groups' log may hold for us; others are skipped when it is read."""

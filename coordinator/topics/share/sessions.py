"""Share sessions (KIP-932): what a member reads at this broker, and the epoch of its next request.

A member has one session per broker, which its first ShareFetch begins (epoch 0). Later requests name only changes, and each has
the epoch that follows the one before it, so that a lost or repeated request is noticed. Epoch -1 ends the session: the member
gives back all it has. So does the end of its connection, since nobody would acknowledge these records. There is a limit of
sessions (group.share.max.share.sessions); none is evicted for another one, whose records would be locked for nothing.

Kafka: `ShareSessionCache`, `ShareSession`, `ShareSessionContext`, and the parts of `SharePartitionManager` about them.
"""

from collections.abc import Iterable
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError

INITIAL, FINAL = 0, -1
"""Epochs that begin and end a session."""
_EPOCH_MAX = 2**31 - 1


class PartitionKey(NamedTuple):
    """A partition of a topic."""

    topic_id: bytes
    partition: int


class SessionKey(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


def next_epoch(epoch: int) -> int:
    """The epoch that follows this one."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class ShareSession:
    """One session. `partitions` is in the order in which they were named or last had records."""

    __slots__ = ("connection", "epoch", "key", "partitions", "unknown")

    def __init__(self, key: SessionKey, partitions: Iterable[PartitionKey], connection: object) -> None:
        self.key = key
        self.partitions = dict.fromkeys(partitions, False)
        """Each with whether the next response must have it: it is new, or the last response had an error for it."""
        self.unknown: set[PartitionKey] = set()
        """Those whose topic id was unknown when they were named; as in Kafka it stays so."""
        self.connection = connection
        self.epoch = next_epoch(INITIAL)
        """The epoch of the next request."""

    def update(self, named: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        for key in named:
            self.partitions.setdefault(key, True)
        for key in forgotten:
            self.partitions.pop(key, None)
            self.unknown.discard(key)

    def is_news(self, key: PartitionKey, error: int, *, has_records: bool) -> bool:
        """Whether the response must have the partition, and notes what the next one must have."""
        must = self.partitions.get(key)
        if must is None:
            return True  # forgotten by a later request
        if has_records:
            del self.partitions[key]
        self.partitions[key] = bool(error)
        return has_records or must or bool(error)


class ShareSessions:
    """All share sessions of a broker."""

    __slots__ = ("_of_connection", "_sessions", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connection: dict[object, list[ShareSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: SessionKey, named: Iterable[PartitionKey], connection: object) -> ShareSession:
        """Begins a session, in place of an earlier one of the member. Raises SHARE_SESSION_LIMIT_REACHED."""
        self.end(key)
        if len(self._sessions) >= self.limit:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, named, connection)
        self._of_connection.setdefault(connection, []).append(session)
        return session

    def find(self, key: SessionKey) -> ShareSession:
        """The session of a member. Raises SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def resume(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a request that continues it. Raises SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH."""
        session = self.find(key)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session

    def partitions_of(self, key: SessionKey) -> Iterable[PartitionKey]:
        """The partitions in the session of a member; none without a session."""
        session = self._sessions.get(key)
        return () if session is None else session.partitions

    def end(self, key: SessionKey) -> ShareSession | None:
        """Ends the session of a member; returns it if there is one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            of_connection = self._of_connection[session.connection]
            of_connection.remove(session)
            if not of_connection:
                del self._of_connection[session.connection]
        return session

    def of_connection(self, connection: object) -> list[ShareSession]:
        """The sessions that began over this connection."""
        return list(self._of_connection.get(connection, ()))

    @property
    def partition_count(self) -> int:
        """How many partitions all sessions have."""
        return sum(len(each.partitions) for each in self._sessions.values())

    def has_any_of(self, group_id: str) -> bool:
        return any(key.group_id == group_id for key in self._sessions)

"""Fetch sessions (KIP-227): a client that fetches the same partitions again and again names them once.

A full request (epoch 0) whose response has a session id begins a session: the server remembers the partitions with their
offsets and its last response for them. The next request has that id and epoch 1 and names only changes (an offset moved, a
partition is added or removed), and the response has only partitions with something new. Epochs number the requests,
so a repeated or lost request is detected, and the client begins again. A request with epoch -1 belongs to no session and ends
the one that it names.

Sessions cost memory, so their number is bounded (`max.incremental.fetch.session.cache.slots`), and so is the number of
partitions in all of them. Where there is no room, a session unused for two minutes is evicted; else, as in Kafka, the smallest
of those that are two minutes old, unless the new one is smaller: the benefit of a session grows with its size. Otherwise the
response has session id 0, and the client continues with full requests.

This is Kafka's FetchManager, FetchSessionCacheShard and FetchSession.
"""

from collections import OrderedDict
from collections.abc import Callable

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.partition import Partition

NO_SESSION = 0
FULL, FINAL = 0, -1
"""Epochs that do not continue a session: FULL begins one, FINAL ends it."""
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_MAX = 100_000
"""The most partitions in all sessions together; they take about thirty megabytes."""
_EPOCH_MAX = 2**31 - 1
_NOT_REPORTED = -1

Key = tuple[str | bytes, int]
"""A topic's name or id, whichever the request has, and a partition."""


class FetchedPartition:
    """A partition of a request or session: the client's request, and the last response (Kafka's CachedPartition)."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "partition", "requested", "topic", "topic_id")

    def __init__(self, key: Key, topic: str | None, topic_id: bytes, requested: FetchRequest.FetchPartition) -> None:
        self.key = key
        self.topic = topic
        """The topic's name; None while its id is unknown."""
        self.topic_id = topic_id
        self.requested = requested
        self.partition: Partition | InternalPartition | None = None
        self.high_watermark = _NOT_REPORTED
        self.log_start_offset = _NOT_REPORTED

    def is_news(self, data: FetchResponse.PartitionData) -> bool:
        """Whether any of the response is new (CachedPartition.maybeUpdateResponseData)."""
        return bool(
            data.records
            or data.error_code
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica >= 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
        )

    def update(self, data: FetchResponse.PartitionData) -> bool:
        """Remembers the response; returns whether any of it is new."""
        is_new = self.is_news(data)
        self.high_watermark, self.log_start_offset = data.high_watermark, data.log_start_offset
        return is_new


class Session:
    """One session. `partitions` is in the order in which they are read."""

    __slots__ = ("created_ms", "epoch", "id", "partitions", "used_ms", "uses_ids")

    def __init__(
        self, session_id: int, partitions: dict[Key, FetchedPartition], *, uses_ids: bool, now_ms: int
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.uses_ids = uses_ids
        self.epoch = 1
        """The epoch of the next request."""
        self.created_ms = self.used_ms = now_ms

    def update(self, fetched: FetchedPartition, data: FetchResponse.PartitionData) -> bool:
        """Like `FetchedPartition.update`. A partition that returned records is read last the next time, to be fair to all."""
        if data.records and self.partitions.pop(fetched.key, None) is not None:
            self.partitions[fetched.key] = fetched
        return fetched.update(data)


def next_epoch(epoch: int) -> int:
    """The epoch that follows this one."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class FetchSessions:
    """All sessions of this server, in the order of their last use."""

    __slots__ = ("_partitions", "_random_bytes", "_sessions", "_slots")

    def __init__(self, slots: int, random_bytes: Callable[[int], bytes]) -> None:
        self._slots = slots
        self._random_bytes = random_bytes
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, partitions: dict[Key, FetchedPartition], *, uses_ids: bool, now_ms: int) -> int:
        """Begins a session and returns its id, or 0 if there is no room (FetchSessionCacheShard.maybeCreateSession)."""
        if not self._make_room(len(partitions), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int.from_bytes(self._random_bytes(4)) >> 1
        self._sessions[session_id] = Session(session_id, partitions, uses_ids=uses_ids, now_ms=now_ms)
        self._partitions += len(partitions)
        return session_id

    def find(self, session_id: int) -> Session | None:
        """The session with this id, as its last request left it; None if there is none."""
        return self._sessions.get(session_id)

    def end(self, session_id: int) -> None:
        """Ends the session with this id, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def resume(
        self,
        session_id: int,
        epoch: int,
        changed: dict[Key, FetchedPartition],
        forgotten: list[Key],
        *,
        uses_ids: bool,
        now_ms: int,
    ) -> Session | None:
        """Returns the session, updated by its next request, or None if it has no partitions left (FetchManager.newContext).

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or FETCH_SESSION_TOPIC_ID_ERROR if the client changed
        between topic names and topic ids.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if uses_ids != session.uses_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._partitions -= len(session.partitions)
        for key, fetched in changed.items():
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = fetched
            else:
                known.requested = fetched.requested
        for key in forgotten:
            session.partitions.pop(key, None)
        if not session.partitions:
            del self._sessions[session_id]
            return None
        self._partitions += len(session.partitions)
        self._sessions.move_to_end(session_id)
        session.used_ms = now_ms
        session.epoch = next_epoch(epoch)
        if self._partitions > PARTITIONS_MAX:
            # It grew beyond the bound of all sessions: this response is its last.
            self.end(session_id)
        return session

    def _make_room(self, size: int, now_ms: int) -> bool:
        while len(self._sessions) >= self._slots or self._partitions + size > PARTITIONS_MAX:
            evicted = self._evictable(size, now_ms)
            if evicted is None:
                return False
            self.end(evicted.id)
        return True

    def _evictable(self, size: int, now_ms: int) -> Session | None:
        """A session that may be evicted for one of this size (FetchSessionCacheShard.tryEvict)."""
        before_ms = now_ms - EVICTABLE_AFTER_MS
        longest_unused = next(iter(self._sessions.values()), None)
        if longest_unused is None or longest_unused.used_ms < before_ms:
            return longest_unused
        old = [session for session in self._sessions.values() if session.created_ms < before_ms]
        smallest = min(old, key=lambda session: len(session.partitions), default=None)
        return smallest if smallest is not None and len(smallest.partitions) <= size else None

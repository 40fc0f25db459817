"""Fetch sessions (KIP-227): a client that fetches the same partitions again and again names them once.

A full request (epoch 0) that is answered with a session id has begun a session: the server remembers the partitions with
their offsets and what it last said of them. The next request carries that id and epoch 1 and names only what changed
(an offset moved, a partition is new or to be forgotten), and the answer holds only partitions of which there is
something new. Epochs number the requests: one that comes twice, or was lost, is found out, and its client begins anew.
A request with epoch -1 belongs to no session and ends the one it names.

Sessions are memory, so there is a bound on their number (`max.incremental.fetch.session.cache.slots`) and one on the
partitions in all of them together. Where there is no room, one unused for two minutes goes; else, as in Kafka, the
smallest of those that exist for two minutes, if the new one is no smaller: what a session saves grows with its size.
Otherwise the answer has session id 0, and its client goes on with full requests.
"""

from collections import OrderedDict
from collections.abc import Callable

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.partition import Partition

NO_SESSION = 0
FULL, FINAL = 0, -1
"""Epochs that do not continue a session: one begins it, one ends it."""
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_MAX = 100_000
"""Partitions in all sessions together: thirty megabytes or so."""
_EPOCH_MAX = 2**31 - 1
_NOT_TOLD = -1

Key = tuple[str | bytes, int]
"""Name or id of a topic, as the request has it, and a partition."""


class Wanted:
    """A partition that is fetched, as its client asked, and what it was last told of it."""

    __slots__ = ("asked", "high_watermark", "key", "log_start_offset", "partition", "topic", "topic_id")

    def __init__(self, key: Key, topic: str | None, topic_id: bytes, asked: FetchRequest.FetchPartition) -> None:
        self.key = key
        self.topic = topic
        """The topic's name; None while its id is not known."""
        self.topic_id = topic_id
        self.asked = asked
        self.partition: Partition | InternalPartition | None = None
        self.high_watermark = _NOT_TOLD
        self.log_start_offset = _NOT_TOLD

    def told(self, data: FetchResponse.PartitionData) -> bool:
        """Notes what the client is told; whether it is anything new."""
        is_new = bool(
            data.records
            or data.error_code
            or data.diverging_epoch.epoch >= 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
        )
        self.high_watermark, self.log_start_offset = data.high_watermark, data.log_start_offset
        return is_new


class Session:
    """One session: its partitions in the order in which they are read."""

    __slots__ = ("created_ms", "epoch", "id", "partitions", "used_ms", "uses_ids")

    def __init__(self, session_id: int, partitions: dict[Key, Wanted], *, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.partitions = partitions
        self.uses_ids = uses_ids
        self.epoch = 1
        """Of the next request."""
        self.created_ms = self.used_ms = now_ms

    def told(self, wanted: Wanted, data: FetchResponse.PartitionData) -> bool:
        """As of the partition; one that gave records is read last the next time, so that each has its turn."""
        if data.records and self.partitions.pop(wanted.key, None) is not None:
            self.partitions[wanted.key] = wanted
        return wanted.told(data)


def next_epoch(epoch: int) -> int:
    """The epoch of the request after this one."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class FetchSessions:
    """All sessions of this server, those first that were not used for longest."""

    __slots__ = ("_partitions", "_random_bytes", "_sessions", "_slots")

    def __init__(self, slots: int, random_bytes: Callable[[int], bytes]) -> None:
        self._slots = slots
        self._random_bytes = random_bytes
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, partitions: dict[Key, Wanted], *, uses_ids: bool, now_ms: int) -> int:
        """A new session's id, or 0 if there is no room for it."""
        if not self._make_room(len(partitions), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int.from_bytes(self._random_bytes(4)) >> 1
        self._sessions[session_id] = Session(session_id, partitions, uses_ids=uses_ids, now_ms=now_ms)
        self._partitions += len(partitions)
        return session_id

    def end(self, session_id: int) -> None:
        """Forgets a session, if there is one of this id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def go_on(
        self,
        session_id: int,
        epoch: int,
        changed: dict[Key, Wanted],
        forgotten: list[Key],
        *,
        uses_ids: bool,
        now_ms: int,
    ) -> Session | None:
        """The session, changed as its next request says; None if nothing is left in it. Raises KafkaError."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if uses_ids != session.uses_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._partitions -= len(session.partitions)
        for key, wanted in changed.items():
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = wanted
            else:
                known.asked = wanted.asked
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
            # It grew beyond what all may have together: this answer is its last.
            self.end(session_id)
        return session

    def _make_room(self, size: int, now_ms: int) -> bool:
        while len(self._sessions) >= self._slots or self._partitions + size > PARTITIONS_MAX:
            leaving = self._least_worth(size, now_ms)
            if leaving is None:
                return False
            self.end(leaving.id)
        return True

    def _least_worth(self, size: int, now_ms: int) -> Session | None:
        """A session that may go for one of this size."""
        before_ms = now_ms - EVICTABLE_AFTER_MS
        longest_unused = next(iter(self._sessions.values()), None)
        if longest_unused is None or longest_unused.used_ms < before_ms:
            return longest_unused
        evictable = [session for session in self._sessions.values() if session.created_ms < before_ms]
        smallest = min(evictable, key=lambda session: len(session.partitions), default=None)
        return smallest if smallest is not None and len(smallest.partitions) <= size else None

"""A member of a classic group while the group lives in memory (mirrors `ClassicGroupMember`)."""

from coordinator.groups.classic.owned_partitions import Reading
from coordinator.groups.held_bytes import member_bytes, text_bytes
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import HeartbeatResponse
from coordinator.runtime.result import RequestContext, Result, Timer, TimerKey

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols a member offers: (name, metadata) in its order of preference. No name occurs twice."""

_ALIVE = HeartbeatResponse(error_code=ErrorCode.NONE)
_REJOIN = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


class ClassicMember:
    """A member, with the requests of its that are parked."""

    __slots__ = (
        "alive", "assignment", "awaiting_join", "awaiting_sync", "client_host", "client_id", "client_reason",
        "content_bytes", "dialect", "group_instance_id", "is_new", "member_id", "must_rejoin", "protocols", "reading",
        "rebalance_timeout_ms", "session_timer",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        protocols: Protocols,
        assignment: bytes,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.client_reason: str | None = None
        """Why the client joined, in its own words (KIP-800)."""
        self.dialect: str | None = None
        """The dialect in which the member's metadata are read: that of its listener. A restart forgets it."""
        self.protocols = protocols
        self.assignment = assignment
        """What the member holds or may fetch; empty in a generation that is not assigned yet."""
        self.is_new = False
        """Its first join is parked: it cannot send heartbeats, and is removed after a fixed time although it waits."""
        self.awaiting_join: RequestContext | None = None
        self.awaiting_sync: RequestContext | None = None
        self.reading: Reading | None = None
        """The metadata as last parsed; it seldom changes from one generation to the next."""
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.content_bytes = self.count_content()
        """The size of its texts, protocols and assignment; the group keeps it up to date."""
        self._set_session(Timer(session_key(group_id, member_id), session_timeout_ms))

    def set_timeouts(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self.rebalance_timeout_ms = rebalance_timeout_ms
        if session_timeout_ms != self.session_timer.delay_ms:
            self._set_session(Timer(self.session_timer.key, session_timeout_ms))

    def _set_session(self, timer: Timer) -> None:
        self.session_timer = timer
        # A heartbeat allocates nothing: both of its results are made here.
        self.alive = Result(_ALIVE, timers=(timer,))
        self.must_rejoin = Result(_REJOIN, timers=(timer,))

    @property
    def session_timeout_ms(self) -> int:
        delay_ms = self.session_timer.delay_ms
        assert delay_ms is not None
        return delay_ms

    def count_content(self) -> int:
        """The size of what the member said and was assigned, which `content_bytes` keeps."""
        size = text_bytes(self.member_id) + text_bytes(self.client_id) + len(self.assignment)
        if self.group_instance_id is not None:
            size += text_bytes(self.group_instance_id)
        return size + protocols_bytes(self.protocols)

    @property
    def held_bytes(self) -> int:
        """What the group holds of the member (held_bytes.py)."""
        return member_bytes(self.content_bytes)

    def growth(self, protocols: Protocols) -> int:
        """By how much the group will hold more of the member if it offers these protocols instead."""
        by_bytes = protocols_bytes(protocols) - protocols_bytes(self.protocols)
        return member_bytes(self.content_bytes + by_bytes) - self.held_bytes

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def metadata(self, protocol_name: str | None) -> bytes | None:
        """The member's metadata under this protocol; None if the member does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return None


def protocols_bytes(protocols: Protocols) -> int:
    """The size of the protocols that a member offers."""
    size = 0
    for name, metadata in protocols:  # for one or two protocols, a generator costs more than the loop
        size += text_bytes(name) + len(metadata)
    return size


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that ends a member's session."""
    return ("classic-session", group_id, member_id)

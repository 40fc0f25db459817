"""A JoinGroup request as the operations see it; differences between versions are settled here."""

from collections.abc import Sequence

from coordinator.groups.classic.member import ClassicMember, Protocols
from coordinator.protocol.codec import TEXT_SIZE_MAX
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import JoinGroupRequest
from coordinator.runtime.result import RequestContext

REBALANCE_TIMEOUT_SINCE = 1
REASON_CHARS_MAX = 255
"""Longer reasons are cut when they are kept; Kafka's clients cut them before they send them (KIP-800)."""
_CHARS_ALWAYS_FIT = TEXT_SIZE_MAX // 4


class JoinAttempt:
    """The request, the caller's context, and the time."""

    __slots__ = ("client_reason", "context", "now_ms", "protocols", "rebalance_timeout_ms", "request")

    def __init__(self, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> None:
        self.request = request
        self.context = context
        self.now_ms = now_ms
        self.protocols: Protocols = tuple([(each.name, each.metadata) for each in request.protocols])
        self.client_reason = request.reason[:REASON_CHARS_MAX] if request.reason else None
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms
            if context.api_version >= REBALANCE_TIMEOUT_SINCE
            else request.session_timeout_ms
        )
        """Version 0 has one timeout for both."""

    def protocol_names(self) -> Sequence[str]:
        return [name for name, _ in self.protocols]

    def fresh_member_id(self) -> str:
        """The id of a new member. Raises UNKNOWN_SERVER_ERROR, as Kafka does, if it is too long to be sent."""
        instance_id = self.request.group_instance_id
        prefix = self.context.client_id if instance_id is None else instance_id
        if prefix is None:
            prefix = "null" if self.context.behaviours.no_client_id_is_null else ""
        member_id = f"{prefix}-{self.context.fresh_id}"
        if len(member_id) > _CHARS_ALWAYS_FIT and len(member_id.encode()) > TEXT_SIZE_MAX:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return member_id

    def apply_to(self, member: ClassicMember) -> None:
        """Gives the member the timeouts, the reason and the dialect of this request."""
        member.set_timeouts(self.request.session_timeout_ms, self.rebalance_timeout_ms)
        member.client_reason = self.client_reason
        member.dialect = self.context.dialect

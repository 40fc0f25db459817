"""The soft state of a consumer group: caches for heartbeats and assignors, and the state of its patterns.

Who may change it, and when it is lost: epochs/soft_state.py.
"""

from collections.abc import Callable
from typing import Self

from coordinator.groups.assignors.assignor import MemberSpec
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.epochs.soft_state import SoftState
from coordinator.groups.settings import ConsumerSettings
from coordinator.runtime.result import Result


class CachedHeartbeat:
    """The answer to a member at the target that has nothing to say and nothing to hear, built once (heartbeat.py)."""

    __slots__ = (
        "client_host", "client_id", "instance_id", "is_final", "member_epoch", "patterns_due_ms", "result", "settings",
    )  # fmt: skip

    def __init__(
        self,
        member: ConsumerMember,
        settings: ConsumerSettings,
        result: Result,
        patterns_due_ms: int,
        *,
        is_final: bool,
    ) -> None:
        self.member_epoch = member.member_epoch
        self.instance_id = member.instance_id
        self.client_id = member.client_id
        self.client_host = member.client_host
        self.settings = settings
        self.result = result
        self.patterns_due_ms = patterns_due_ms
        """When the group's patterns are to be matched again, by the wall clock; then the answer is not valid any more."""
        self.is_final = is_final
        """The target is for the group's epoch; otherwise the answer is only valid within the assignment interval."""


class ConsumerSoftState(SoftState):
    """The memory of a consumer group beyond its log."""

    __slots__ = (
        "assignor_inputs", "catalog_version", "is_matching", "may_describe", "regexes_looked_at_ms", "regexes_version",
        "rejoin_pending", "target_version", "topic_ids",
    )  # fmt: skip

    cached_heartbeats: dict[str, CachedHeartbeat]
    """By member id, for members that have reached the target."""

    def __init__(self) -> None:
        super().__init__()
        self.rejoin_pending: set[str] = set()
        """Classic members that were asked to rejoin and have not done so yet."""
        self.catalog_version: int | None = None
        """The version of the topic catalog for which the group's metadata hash is known to be right."""
        self.topic_ids: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
        """Subscription (names, pattern) -> ids of its topics in that version."""
        self.assignor_inputs: dict[str, MemberSpec] = {}
        """Member id -> the member as an assignor sees it in that version; without members that have changed since."""
        self.target_version: int | None = None
        """The catalog version for which the target was computed; None: not since the log was read."""
        self.may_describe: Callable[[str], bool] | None = None
        """Which topics the client may see whose request armed the timer of the patterns; None: the timer is not armed."""
        self.is_matching = False
        """The patterns are being matched outside the shard."""
        self.regexes_version: int | None = None
        """The catalog version that the patterns were last matched against."""
        self.regexes_looked_at_ms = 0
        """When they were, by the wall clock."""

    def take_over(self, uncommitted: Self) -> None:
        super().take_over(uncommitted)
        self.may_describe = uncommitted.may_describe

    def on_member_removed(self, member_id: str) -> None:
        super().on_member_removed(member_id)
        self.rejoin_pending.discard(member_id)
        self.assignor_inputs.pop(member_id, None)

    def on_votes_changed(self) -> None:
        """A member asks for another assignor than before: the next heartbeat of any other may raise the group's epoch."""
        self.cached_heartbeats.clear()

    def on_topics_changed(self) -> None:
        """Topics have changed, or what patterns match: what was derived from them is computed again when it is needed."""
        self.topic_ids.clear()
        self.assignor_inputs.clear()

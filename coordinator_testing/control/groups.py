"""Groups: views, waiting for a state, and commands."""

from collections.abc import Collection
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from msgspec import Struct

from coordinator_testing.control import steps
from coordinator_testing.control.command import command
from coordinator_testing.control.steps import NOT_FOUND, UNAVAILABLE, WITHIN_S, HttpRequest, Steps, View


class GroupState(TypedDict, total=False):
    """What to wait for; all of it must be true at once."""

    state: str
    """Kafka's name, such as Stable."""
    members: int
    epoch: int
    """The group's generation or epoch, or a later one."""


class Rebalanced(Struct, frozen=True):
    """What a forced rebalance did."""

    group_id: str
    kind: str
    started: bool
    """False: one was already in progress, and `epoch` is None."""
    state: str
    """That before the rebalance."""
    epoch: int | None
    """The one to which the rebalance leads."""


class Acted(Struct, frozen=True):
    """What an action made of a group."""

    group_id: str
    kind: str
    state: str
    epoch: int
    member_id: str | None = None


class Expired(Struct, frozen=True):
    """What an expiry of offsets did."""

    group_id: str
    expired: int
    group_deleted: bool
    """Whether the group had no members and went with its last offset."""
    kept: list[View] = []
    """The offsets that retention would not delete either: topic, partition, why."""


class ExpiredLocks(Struct, frozen=True):
    """Locks of a share group that have ended."""

    group_id: str
    records: int


class Reloaded(Struct, frozen=True):
    """A shard that loads its log again."""

    topic: str
    shard: int
    refused: int
    """Requests that waited and got NOT_COORDINATOR."""


class GroupCommands:
    """A group, which need not exist yet. Commands are repeated while its coordinator is not available."""

    id: str

    @command
    def describe(self) -> Steps[View]:
        """State, members, assignments, offsets and recent rebalances."""
        return steps.ask(steps.get(self._path()), View)

    @command
    def wait(self, *, timeout_s: float = WITHIN_S, **until: Unpack[GroupState]) -> Steps[View]:
        """Waits for a state, a number of members and an epoch, all at once. Raises NotReached."""
        text = ",".join(f"{name}:{value}" for name, value in until.items())

        def request(waits_ms: int) -> HttpRequest:
            return steps.get(self._path(), {"until": text, "timeout_ms": waits_ms}, waits_ms=waits_ms)

        return steps.wait(
            request,
            View,
            lambda view: bool(view["reached"]),
            f"{text} of group {self.id}",
            timeout_s,
            retried=(NOT_FOUND, UNAVAILABLE),
        )

    @command
    def rebalance(self, reason: str, *, timeout_s: float = WITHIN_S) -> Steps[Rebalanced]:
        """Makes all members rebalance. `reason` is logged with it."""
        return self._act("rebalance", answer=Rebalanced, timeout_s=timeout_s, reason=reason)

    @command
    def evict(self, member_id: str, *, reason: str | None = None) -> Steps[Acted]:
        """Removes a member."""
        return self._act("members", member_id, "evict", answer=Acted, reason=reason)

    @command
    def expire_session(self, member_id: str) -> Steps[Acted]:
        """Ends the session of a member."""
        return self._act("members", member_id, "expire-session", answer=Acted)

    @command
    def bump_epoch(self, *, reason: str | None = None) -> Steps[Acted]:
        """Raises the generation or epoch; the members stay."""
        return self._act("bump-epoch", answer=Acted, reason=reason)

    @command
    def expire_offsets(self, topics: Collection[str] | None = None) -> Steps[Expired]:
        """Deletes the committed offsets of these topics, or all, as if their retention time had passed."""
        return self._act("offsets", "expire", answer=Expired, topics=None if topics is None else list(topics))

    @command
    def expire_locks(
        self, member_id: str | None = None, *, topic: str | None = None, partition: int | None = None
    ) -> Steps[ExpiredLocks]:
        """Ends acquisition locks of a share group, as if their time had passed: of a member or all, in a partition or all."""
        return self._act("expire-locks", answer=ExpiredLocks, member_id=member_id, topic=topic, partition=partition)

    @command
    def reload(self, *, for_ms: int = 0) -> Steps[Reloaded]:
        """A failover: the group's shard discards its memory and loads its log, for at least this time."""
        return self._act("reload", answer=Reloaded, for_ms=for_ms)

    @command
    def at(self, offset: int) -> Steps[View]:
        """The group as it was at an offset of its log."""
        return steps.ask(steps.get(self._path(), {"at": offset}), View)

    @command
    def diff(self, first: int, last: int) -> Steps[View]:
        """The group at the second of two offsets of its log; `changes` has what is different in it."""
        return steps.ask(steps.get(self._path(), {"diff": f"{first},{last}"}), View)

    def _path(self, *rest: str) -> str:
        return "/".join(["/v1/groups", *(quote(each, safe="") for each in (self.id, *rest))])

    def _act(self, *rest: str, answer: type[steps.T], timeout_s: float = WITHIN_S, **body: Any) -> Steps[steps.T]:
        return steps.ask_until_available(steps.post(self._path(*rest), body), answer, timeout_s)

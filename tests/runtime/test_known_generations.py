"""No member learns of a generation before its record is durable, however the generation came to be formed."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from coordinator.groups.classic_protocol import join_group, leave_group
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol.messages import JoinGroupRequest, LeaveGroupRequest
from tests.runtime.shard_world import ReplyTarget, ShardWorld

SESSION_MS = 10_000
REBALANCE_MS = 20_000
DELAY_MS = 3_000


class Joins:
    """A shard, and the members that joined group g, by name. A member's id is its name and a suffix."""

    def __init__(self) -> None:
        self.world = ShardWorld(config=GroupsConfig(group_initial_rebalance_delay_ms=DELAY_MS))
        self.sent: list[ReplyTarget] = []

    @property
    def group(self) -> Any:
        return self.world.shard.state.by_id["g"]

    def join(self, name: str, metadata: bytes = b"", session_ms: int = SESSION_MS) -> ReplyTarget:
        """The join of a client, under the member id that it has or under none."""
        member_id = next((each for each in self.group.members if each.startswith(name)), "") if self.sent else ""
        request = JoinGroupRequest(
            group_id="g", session_timeout_ms=session_ms, rebalance_timeout_ms=REBALANCE_MS, member_id=member_id,
            protocol_type="consumer", protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", metadata)],
        )  # fmt: skip
        target = ReplyTarget(request)
        target.api_version, target.client_id = 3, name
        self.sent.append(target)
        self.world.shard.submit(join_group, target)
        return target

    def leave(self, name: str) -> None:
        member_id = next(each for each in self.group.members if each.startswith(name))
        target = ReplyTarget(LeaveGroupRequest(group_id="g", member_id=member_id))
        target.api_version = 0
        self.world.shard.submit(leave_group, target)

    def known(self) -> list[int]:
        """The generations in the responses that left the server."""
        replies = [answer for target in self.sent for answer in target.answers]
        return sorted({reply.generation_id for reply in replies if getattr(reply, "generation_id", -1) > 0})

    def rebalancing(self, session_ms: int = SESSION_MS) -> None:
        """Members a and b know generation 1, a has joined again, and b with this session has not."""
        self.join("a")
        self.join("b", session_ms=session_ms)
        self.world.advance(2 * DELAY_MS)
        self.world.settle()
        assert self.known() == [1]
        self.join("a", b"changed")
        self.world.settle()


def initial_delay(joins: Joins) -> Callable[[], object]:
    joins.join("a")
    joins.join("b")  # extends the delay
    joins.world.advance(DELAY_MS)
    joins.world.settle()
    return lambda: joins.world.advance(DELAY_MS)


def last_join(joins: Joins) -> Callable[[], object]:
    joins.rebalancing()
    return lambda: joins.join("b")


def rebalance_timeout(joins: Joins) -> Callable[[], object]:
    joins.rebalancing(session_ms=2 * REBALANCE_MS)
    return lambda: joins.world.advance(REBALANCE_MS)


def leaving(joins: Joins) -> Callable[[], object]:
    joins.rebalancing()
    return lambda: joins.leave("b")


def session_timeout(joins: Joins) -> Callable[[], object]:
    joins.rebalancing()
    return lambda: joins.world.advance(SESSION_MS)


WAYS = [initial_delay, last_join, rebalance_timeout, leaving, session_timeout]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("repeats", [False, True], ids=["", "and a join is repeated"])
def test_a_generation_is_known_when_it_is_durable(way: Callable[[Joins], Callable[[], object]], repeats: bool) -> None:
    joins = Joins()
    form = way(joins)
    before = joins.known()
    form()
    generation = joins.group.generation
    assert joins.group.state == "CompletingRebalance"
    assert generation not in before
    if repeats:
        joins.join("a", b"changed" if before else b"")
    assert joins.known() == before
    joins.world.turn()
    assert joins.known() == before, "the record is written and not yet durable"
    joins.world.finish_syncs()
    assert joins.known() == [*before, generation]
    members = list(joins.group.members)
    joins.world.restart(lambda: joins.world.disk.crash(Random(1)))
    assert (joins.group.state, joins.group.generation) == ("CompletingRebalance", generation)
    assert list(joins.group.members) == members


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", WAYS)
def test_a_generation_that_loses_its_record_was_known_to_nobody(
    way: Callable[[Joins], Callable[[], object]], seed: int
) -> None:
    """The power fails after the write and before its sync: the record is there or not."""
    joins = Joins()
    form = way(joins)
    before = joins.known()
    form()
    formed = joins.group.generation
    joins.world.turn()
    joins.world.restart(lambda: joins.world.disk.crash(Random(seed)))
    assert formed not in joins.known()
    generation = joins.world.shard.state.by_id["g"].generation if "g" in joins.world.shard.state.by_id else 0
    assert generation in (formed, max(before, default=0))

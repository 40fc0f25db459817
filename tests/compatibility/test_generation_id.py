"""KIP-792 and KIP-568 with a real client: kafka-python, extended to send its generation when it joins.

A member that missed a generation is fenced before its stale claim can reach the leader, and returns with its id. Of two
owners that a lost response creates, one remains. A follower's enforceRebalance always rebalances, where the same
request without the field is treated as a repetition.
"""

import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.cutting_proxy import CuttingProxy
from tests.compatibility.members import HERE, Client, Program, shared, wait_for_all
from tests.support.admin_client import check_assignments
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S

JOIN_GROUP = 11
ENFORCED = 4
MakeTopic = Callable[..., str]
Start = Callable[[Client, str], Program]


class Extended(Client):
    """kafka-python with or without the field."""

    def __init__(self, *, says_generation: bool):
        super().__init__("kafka-python", cooperative=True, admin=frozenset())
        self.options = ["792"] if says_generation else []

    def command(self, bootstrap: str) -> list[str]:
        return [sys.executable, str(HERE / "clients" / "generation_client.py"), bootstrap, *self.options]


SAYS_GENERATION, SAYS_NOTHING = Extended(says_generation=True), Extended(says_generation=False)


@pytest.fixture
def proxy() -> Iterator[CuttingProxy]:
    proxy = CuttingProxy()
    yield proxy
    proxy.close()


@pytest.fixture
def proxied(coordinator_process: Callable[..., ServerProcess], proxy: CuttingProxy) -> Iterator[ServerProcess]:
    """A server whose second listener sends its clients through the proxy."""
    behind = HeldPort()
    listeners = [
        {"address": "127.0.0.1:0"},
        {"address": behind.address, "advertise": f"127.0.0.1:{proxy.port}"},
    ]
    proxy.target = ("127.0.0.1", behind.port)
    yield coordinator_process(settings={"listeners": json.dumps(listeners)})
    behind.release()


@pytest.fixture
def run(program_folder: Path) -> Iterator[Start]:
    programs: list[Program] = []

    def run(client: Client, bootstrap: str) -> Program:
        programs.append(Program(client, bootstrap, program_folder))
        return programs[-1]

    yield run
    for program in programs:
        program.stop()


def group_view(server: ServerProcess, group: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.admin}/v1/groups/{group}", timeout=WITHIN_S) as answer:
        return json.load(answer)


def pair(
    run: Start, client: Client, server: ServerProcess, topic: str, assignors: str = "range"
) -> tuple[Program, Program]:
    """The leader and the follower of a Stable group g."""
    members = [run(client, server.bootstrap) for _ in range(2)]
    for member, name in zip(members, "ab", strict=True):
        member.join("g", [topic], name=name, assignors=assignors)
        member.wait_until(lambda member=member: bool(member.owned), "its partitions")
    wait_for_all(members, lambda: shared(members, {(topic, p) for p in range(4)}), "both to share")
    leader_id = group_view(server, "g")["leader"]
    first, second = members
    return (first, second) if first.call("member_id") == leader_id else (second, first)


def test_a_follower_enforces_a_rebalance_every_time(
    coordinator_process: Callable[..., ServerProcess], run: Start, make_topic: MakeTopic
) -> None:
    server = coordinator_process()
    leader, follower = pair(run, SAYS_GENERATION, server, make_topic(server, 4))
    members = [leader, follower]
    generation = follower.call("generation")
    for _ in range(ENFORCED):
        before = [member.rebalances() for member in members]
        follower.call("enforce")
        for member, count in zip(members, before, strict=True):
            member.wait_until(
                lambda member=member, count=count: member.rebalances() >= count + 2, "its partitions again"
            )
        # at least: kafka-python forgets a response that arrives as its poll ends, and repeats the request
        asked = [(member, member.send("generation")) for member in members]
        before, generation = generation, min(member.wait_for_result(number) for member, number in asked)
        assert generation > before
    assert server.log.count('cause="a member enforces a rebalance"') >= ENFORCED
    assert follower.call("fenced") == leader.call("fenced") == 0


def test_without_the_field_the_same_request_is_a_repetition(
    coordinator_process: Callable[..., ServerProcess], run: Start, make_topic: MakeTopic
) -> None:
    server = coordinator_process()
    leader, follower = pair(run, SAYS_NOTHING, server, make_topic(server, 4))
    generation, undisturbed = follower.call("generation"), leader.rebalances()
    for _ in range(3):
        before = follower.rebalances()
        follower.call("enforce")
        follower.wait_until(lambda before=before: follower.rebalances() >= before + 2, "its partitions again")
    assert follower.call("generation") == leader.call("generation") == generation
    assert leader.rebalances() == undisturbed


def test_a_member_that_missed_a_generation_is_fenced_and_rejoins_with_its_id(
    proxied: ServerProcess, proxy: CuttingProxy, run: Start, make_topic: MakeTopic
) -> None:
    """Its JoinGroup response is lost: it still believes in the previous generation, and in what it owned there."""
    topic = make_topic(proxied, 6)
    partitions = {(topic, p) for p in range(6)}
    undisturbed = run(SAYS_GENERATION, proxied.bootstrap)
    cut_off = run(SAYS_GENERATION, f"127.0.0.1:{proxy.port}")
    undisturbed.join("g", [topic], name="undisturbed", assignors="cooperative-sticky")
    undisturbed.wait_until(lambda: bool(undisturbed.owned), "its partitions")
    cut_off.join("g", [topic], name="cut-off", assignors="cooperative-sticky")
    wait_for_all([undisturbed, cut_off], lambda: shared([undisturbed, cut_off], partitions), "both to share")
    member_id = cut_off.call("member_id")

    proxy.lose_next(JOIN_GROUP)
    newcomer = run(SAYS_GENERATION, proxied.bootstrap)
    newcomer.join("g", [topic], name="newcomer", assignors="cooperative-sticky")
    assert proxy.lost.wait(WITHIN_S), "no answer to JoinGroup was lost"

    members = [undisturbed, cut_off, newcomer]
    wait_for_all(members, lambda: shared(members, partitions), "every partition to have one owner")
    assert cut_off.call("fenced") >= 1
    assert cut_off.call("member_id") == member_id
    assert "event=member_fenced" in proxied.log
    claims = group_view(proxied, "g")["claims"]
    assert not any(value for value in claims.values()), claims
    check_assignments(proxied)

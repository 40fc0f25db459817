"""A real client whose assignor is wrong: kafka-python gives every partition to every member."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.members import HERE, Client, Program, shared, wait_for_all
from tests.support.admin_client import scrape, view
from tests.support.server_process import ServerProcess

MakeTopic = Callable[..., str]
Join = Callable[[ServerProcess, str, str], Program]


class Greedy(Client):
    """kafka-python with that assignor."""

    def __init__(self) -> None:
        super().__init__("kafka-python", cooperative=False, admin=frozenset())

    def command(self, bootstrap: str) -> list[str]:
        return [sys.executable, str(HERE / "clients" / "greedy_client.py"), bootstrap]


@pytest.fixture
def join(program_folder: Path) -> Iterator[Join]:
    """Starts a member of group g."""
    with ExitStack() as stack:

        def join(server: ServerProcess, topic: str, name: str) -> Program:
            program = Program(Greedy(), server.bootstrap, program_folder)
            stack.callback(program.stop)
            program.join("g", [topic], name=name, assignors="greedy")
            return program

        yield join


def invalid(server: ServerProcess) -> float:
    """Partitions that the leader has assigned to two members."""
    return scrape(server)["coordinator_invalid_assignments_total"]["two_members",]


def test_by_default_members_receive_what_a_wrong_assignor_assigns(
    coordinator_process: Callable[..., ServerProcess], join: Join, make_topic: MakeTopic
) -> None:
    server = coordinator_process()
    topic = make_topic(server, 4)
    partitions = {(topic, index) for index in range(4)}
    members = [join(server, topic, name) for name in "ab"]
    wait_for_all(members, lambda: all(each.owned == partitions for each in members), "both to own everything")
    assert invalid(server) >= 4
    assert view(server, "/v1/groups/g")["invalid_assignments"]["two_members"] >= 4


def test_a_refused_group_has_no_second_owner_and_recovers_with_its_assignor(
    coordinator_process: Callable[..., ServerProcess], join: Join, make_topic: MakeTopic
) -> None:
    server = coordinator_process(settings={"group.classic.validate.assignments": "refuse"})
    topic = make_topic(server, 4)
    partitions = {(topic, index) for index in range(4)}
    first = join(server, topic, "a")
    first.wait_until(lambda: first.owned == partitions, "all partitions, as the only member")
    second = join(server, topic, "b")
    members = [first, second]
    wait_for_all(members, lambda: invalid(server) >= 12, "the group to rebalance three times")
    for member in members:
        member.call("mend")
    wait_for_all(members, lambda: shared(members, partitions), "both to share")
    assert {each for event in second.partitions_of_events("assigned") for each in event} == second.owned
    causes = scrape(server)["coordinator_rebalances_total"]
    assert causes["the leader's assignment is invalid", "classic"] >= 3

"""A rolling upgrade from Kafka 3.9 to 4.1 under a group of four libraries, which becomes a consumer group afterwards.

The members stay while their broker becomes the other release; every record is read by one of them, once, and committed.
What each library sees is in docs/emulation.md.
"""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_testing.control import Control
from tests.compatibility.members import CLIENTS, Client, Program
from tests.compatibility.shared_groups import (
    PARTITIONS,
    SETTINGS,
    all_of,
    assert_disjoint,
    describe,
    listed,
    pass_records,
    wait_to_share,
)
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

Start = Callable[[Client, ServerProcess], Program]
LIBRARIES = ("confluent", "kafka_python", "aiokafka", "java")
BEFORE, AFTER = "3.9", "4.1"
CLASSIC = {"heartbeat_ms": 250, "session_timeout_ms": 20_000}
CONSUMER = {"protocol": "consumer"}


@pytest.fixture
def broker(coordinator_process: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that is the earlier release."""
    return coordinator_process(settings=SETTINGS | {"emulate": BEFORE, "admin.control.enable": True})


def classic_members(server: ServerProcess, group: str) -> tuple[dict[str, str], str]:
    """Client id -> member id, and the state of a classic group."""
    with Connection(server.bootstrap) as link:
        (found,) = link.call("DescribeGroups", 5, groups=[group])["groups"]
    return {member["client_id"]: member["member_id"] for member in found["members"]}, found["group_state"]


def events_since(programs: list[Program], before: list[int]) -> dict[str, list[Any]]:
    return {
        program.name: program.events[count:]
        for program, count in zip(programs, before, strict=True)
        if len(program.events) > count
    }


@pytest.mark.java
def test_a_group_of_four_libraries_is_upgraded_and_loses_nothing(
    broker: ServerProcess, start: Start, make_topic: Callable[..., str], fresh: Callable[[str], str]
) -> None:
    topic, group = make_topic(broker, PARTITIONS), fresh("group")
    members: list[Program] = []
    for library in LIBRARIES:
        members.append(start(CLIENTS[library], broker))
        members[-1].join(group, [topic], name=library, **CLASSIC)
    everybody = list(members)
    producer = start(CLIENTS["confluent"], broker)
    wait_to_share(broker, members, all_of(topic))
    pass_records(producer, members, topic, BEFORE)

    ids, before = classic_members(broker, group), [len(member.events) for member in members]
    with Control(broker.admin) as control:
        assert control.emulate(AFTER).connections_closed >= len(members)
        pass_records(producer, members, topic, "upgraded")
        assert classic_members(broker, group) == ids
        assert events_since(members, before) == {}, "nobody rebalances"

        # Members of the new protocol come, and those that they replace leave.
        for library in ("confluent", "java"):
            old = next(member for member in members if member.name == library)
            members.append(start(CLIENTS[library], broker))
            everybody.append(members[-1])
            members[-1].join(group, [topic], name=f"new-{library}", **CONSUMER)
            wait_to_share(broker, members, all_of(topic))
            assert listed(broker, group)["group_type"] == "consumer"
            members.remove(old)
            old.call("leave")
            wait_to_share(broker, members, all_of(topic))
            pass_records(producer, members, topic, f"new-{library}")
        kinds = {name: member["member_type"] for name, member in describe(broker, group)["members"].items()}
        assert kinds == {"kafka_python": 0, "aiokafka": 0, "new-confluent": 1, "new-java": 1}
        assert_disjoint(everybody)  # now, since aiokafka reports no revocation when it leaves
        for library in ("kafka_python", "aiokafka"):
            old = next(member for member in members if member.name == library)
            members.remove(old)
            old.call("leave")
            wait_to_share(broker, members, all_of(topic))
        pass_records(producer, members, topic, AFTER)
        committed = members[0].call("committed", partitions=[list(each) for each in sorted(all_of(topic))])
        assert committed == [2 * 5] * PARTITIONS
        assert sorted(v for member in everybody for v in member.values()) == sorted(
            f"{prefix}-{partition}-{number}"
            for prefix in (BEFORE, "upgraded", "new-confluent", "new-java", AFTER)
            for partition in range(PARTITIONS)
            for number in range(2)
        )

"""A rolling upgrade from Kafka 3.9 to 4.1 under a group of four libraries, which becomes a consumer group afterwards.

The members stay while their broker becomes the other release; every record is read by one of them, once, and committed.
The broker is this server, or a Kafka that is started again with the jars of 4.1. What each library sees: docs/emulation.md.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from coordinator_testing.control import Control
from tests.compatibility.members import CLIENTS, Client, Program
from tests.compatibility.shared_groups import (
    PARTITIONS,
    SETTINGS,
    Broker,
    all_of,
    assert_disjoint,
    describe,
    listed,
    pass_records,
    wait_to_share,
)
from tests.support.admin_client import check_assignments
from tests.support.earlier_kafka import EarlierKafka
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

Start = Callable[[Client, Broker], Program]
LIBRARIES = ("confluent", "kafka_python", "aiokafka", "java")
BEFORE, AFTER = "3.9", "4.1"
KAFKAS = {BEFORE: "3.9.1", AFTER: "4.1.1"}
CLASSIC = {"heartbeat_ms": 250, "session_timeout_ms": 300_000}
"""librdkafka revokes all partitions after a session timeout without a coordinator; a Kafka may be away for longer than 20 s."""
CONSUMER = {"protocol": "consumer"}


class Upgraded(Broker, Protocol):
    """A broker of the earlier release."""

    def upgrade(self) -> None:
        """Becomes the later release, with its features. All connections end."""


class ThisServer:
    """This server, which becomes the other release at once."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        settings = SETTINGS | {"emulate": BEFORE, "admin.control.enable": True}
        server = stack.enter_context(ServerProcess(folder, settings=settings))
        stack.callback(check_assignments, server)
        self.bootstrap = server.bootstrap
        self._control = stack.enter_context(Control(server.admin))

    def upgrade(self) -> None:
        assert self._control.emulate(AFTER).connections_closed >= len(LIBRARIES)


class Kafka:
    """One broker of Kafka, which is stopped, and started with other jars on its data and ports."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._broker = EarlierKafka(folder, KAFKAS[BEFORE], {key: str(value) for key, value in SETTINGS.items()})
        stack.callback(self._broker.stop)
        self._broker.start().wait_until_serving()
        self.bootstrap = self._broker.bootstrap

    def upgrade(self) -> None:
        self._broker.upgrade(KAFKAS[AFTER])
        self._broker.finalize(AFTER)


@pytest.fixture(params=[ThisServer, pytest.param(Kafka, marks=[pytest.mark.kafka, pytest.mark.thorough])])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgraded]:
    with ExitStack() as stack:
        yield request.param(tmp_path, stack)


def classic_members(server: Broker, group: str) -> tuple[dict[str, str], str]:
    """Client id -> member id, and the state of a classic group."""
    with Connection(server.bootstrap) as link:
        (found,) = link.call("DescribeGroups", 5, groups=[group])["groups"]
    return {member["client_id"]: member["member_id"] for member in found["members"]}, found["group_state"]


def seen_since(programs: list[Program], before: dict[Program, int]) -> dict[str, list[str]]:
    """What happened to each program: events with how many partitions they were about."""
    seen = {}
    for program in programs:
        fresh = program.events[before.get(program, 0) :]
        before[program] = before.get(program, 0) + len(fresh)
        seen[program.name] = [f"{each['event']} {len(each.get('partitions', ()))}" for each in fresh]
    return {name: events for name, events in seen.items() if events}


@pytest.mark.java
@pytest.mark.timeout(1800)
def test_a_group_of_four_libraries_is_upgraded_and_loses_nothing(
    broker: Upgraded, start: Start, make_topic: Callable[..., str], fresh: Callable[[str], str]
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

    ids, before = classic_members(broker, group), {member: len(member.events) for member in members}
    broker.upgrade()
    pass_records(producer, members, topic, "upgraded")
    assert classic_members(broker, group) == ids
    assert seen_since(members, before) == {}, "nobody rebalances"

    # Members of the new protocol come, and those that they replace leave.
    for library in ("confluent", "java"):
        old = next(member for member in members if member.name == library)
        members.append(start(CLIENTS[library], broker))
        everybody.append(members[-1])
        members[-1].join(group, [topic], name=f"new-{library}", **CONSUMER)
        wait_to_share(broker, members, all_of(topic))
        print(f"new-{library} comes", json.dumps(seen_since(everybody, before)))
        assert listed(broker, group)["group_type"] == "consumer"
        members.remove(old)
        old.call("leave")
        wait_to_share(broker, members, all_of(topic))
        print(f"{library} leaves", json.dumps(seen_since(everybody, before)))
        pass_records(producer, members, topic, f"new-{library}")
    kinds = {name: member["member_type"] for name, member in describe(broker, group)["members"].items()}
    assert kinds == {"kafka_python": 0, "aiokafka": 0, "new-confluent": 1, "new-java": 1}
    assert_disjoint(everybody)  # now, since aiokafka reports no revocation when it leaves
    for library in ("kafka_python", "aiokafka"):
        old = next(member for member in members if member.name == library)
        members.remove(old)
        old.call("leave")
        wait_to_share(broker, members, all_of(topic))
        print(f"{library} leaves", json.dumps(seen_since(everybody, before)))
    pass_records(producer, members, topic, AFTER)
    committed = members[0].call("committed", partitions=[list(each) for each in sorted(all_of(topic))])
    assert committed == [2 * 5] * PARTITIONS
    assert sorted(v for member in everybody for v in member.values()) == sorted(
        f"{prefix}-{partition}-{number}"
        for prefix in (BEFORE, "upgraded", "new-confluent", "new-java", AFTER)
        for partition in range(PARTITIONS)
        for number in range(2)
    )

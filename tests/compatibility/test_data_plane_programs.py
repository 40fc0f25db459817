"""The data plane as users of four more libraries see it: codecs, timestamps, admin operations, and behaviour after a
kill.

librdkafka and kafka-python have tests of their own in test_data_plane_clients.py.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compatibility.members import CLIENTS, ClientError, Program
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S

CODECS = {
    "aiokafka": ("none", "gzip", "snappy", "lz4", "zstd"),
    "java": ("none", "gzip", "snappy", "lz4", "zstd"),
    "franz_go": ("none", "gzip", "snappy", "lz4", "zstd"),
    "kafkajs": ("none", "gzip", "snappy"),
}
"""The codecs that the library supports without native code."""
ADMINS = {"java", "franz_go", "kafkajs"}
"""The clients whose admin API covers all of it and reports errors."""
PROGRAMS = [pytest.param(name, marks=pytest.mark.java if name == "java" else ()) for name in CODECS]
VALUES = [f"{number} " * 50 for number in range(300)]


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest, server: ServerProcess, program_folder: Path) -> Iterator[Program]:
    """One process for all tests of a library."""
    with ExitStack() as stack:
        made = Program(CLIENTS[request.param], server.bootstrap, program_folder)
        stack.callback(made.stop)
        yield made


@pytest.fixture
def admin(program: Program) -> Program:
    if program.client.name not in ADMINS:
        pytest.skip(f"the admin client of {program.client.name} does less")
    return program


@pytest.fixture
def topic(program: Program, fresh: Callable[[str], str]) -> str:
    name = fresh("data")
    program.call("create_topic", topic=name, count=2)
    return name


def read(server: ServerProcess, topic: str, count: int) -> list[str]:
    """The records that librdkafka finds in partition 0."""
    settings = {
        "bootstrap.servers": server.bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + WITHIN_S
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value().decode() for message in consumer.consume(count, 0.5) if not message.error()]
    consumer.close()
    return values


@pytest.mark.parametrize("idempotent", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_records_come_back_as_they_were_sent_with_every_codec(server, program, topic, fresh, idempotent):
    for codec in CODECS[program.client.name]:
        name = fresh(f"{codec}-{idempotent}-{program.client.name}")
        program.call("create_topic", topic=name, count=1)
        program.call("produce", topic=name, partition=0, values=VALUES, codec=codec, idempotent=idempotent)
        assert program.call("read_since", topic=name, partition=0, time_ms=0, count=300) == VALUES, codec
        assert read(server, name, 300) == VALUES, codec


def test_consuming_from_a_time(program, topic):
    began = int(time.time() * 1000) - 100_000
    for number in range(3):
        program.call(
            "produce", topic=topic, partition=0, values=[f"v{number}"], times=[began + 1000 * number], idempotent=False
        )
    for since, found in ((began, ["v0", "v1", "v2"]), (began + 1, ["v1", "v2"]), (began + 2000, ["v2"])):
        assert program.call("read_since", topic=topic, partition=0, time_ms=since, count=len(found)) == found


def test_an_admin_makes_looks_at_changes_and_deletes(admin, fresh):
    name = fresh("admin")
    assert admin.call("brokers") == 1
    assert admin.call("topic", topic=name) == 0
    admin.call("create_topic", topic=name, count=2, configs={"retention.ms": "60000"})
    assert admin.call("topic", topic=name) == 2
    assert admin.call("configs", topic=name)["retention.ms"] == "60000"
    admin.call("set_config", topic=name, configs={"retention.ms": "70000"})
    assert admin.call("configs", topic=name)["retention.ms"] == "70000"
    admin.call("add_partitions", topic=name, count=4)
    assert admin.call("topic", topic=name) == 4
    admin.call("produce", topic=name, partition=3, values=["a", "b", "c"])
    assert admin.call("end_offsets", partitions=[[name, 3]]) == [3]
    admin.call("delete_records", topic=name, partition=3, offset=2)
    assert admin.call("read_since", topic=name, partition=3, time_ms=0, count=1) == ["c"]
    admin.call("delete_topic", topic=name)
    assert admin.call("topic", topic=name) == 0


def test_an_admin_operation_reports_its_error(admin, topic, fresh):
    with pytest.raises(ClientError, match=r"(?i)exist"):
        admin.call("create_topic", topic=topic, count=1)
    with pytest.raises(ClientError, match=r"(?i)partitions"):
        admin.call("add_partitions", topic=topic, count=1)
    with pytest.raises(ClientError, match=r"(?i)topic"):
        admin.call("delete_topic", topic=fresh("nowhere"))


@pytest.mark.parametrize("client", PROGRAMS)
def test_acknowledged_records_survive_a_kill(client, coordinator_process, program_folder):
    server = coordinator_process()
    program = Program(CLIENTS[client], server.bootstrap, program_folder)
    try:
        program.call("create_topic", topic="t", count=1)
        program.call("produce", topic="t", partition=0, values=VALUES, codec="gzip")
        server.restart(kill=True)
        program.call("produce", topic="t", partition=0, values=["late"])
        assert program.call("read_since", topic="t", partition=0, time_ms=0, count=301) == [*VALUES, "late"]
    finally:
        program.stop()

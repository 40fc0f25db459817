"""The data plane as users of franz-go and kafkajs see it: codecs, times, what an admin client may do, and after a kill.

That they are members of groups like all others is in test_real_clients.py.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from compatibility.members import CLIENTS, ClientError, Program
from confluent_kafka import Consumer, TopicPartition
from server_process import ServerProcess

CODECS = {
    "franz_go": ("none", "gzip", "snappy", "lz4", "zstd"),
    "kafkajs": ("none", "gzip", "snappy"),
}
"""Those that the library has without code of the machine's own."""
VALUES = [f"{number} " * 50 for number in range(300)]
WITHIN_S = 20.0


@pytest.fixture(scope="module", params=list(CODECS))
def program(request: pytest.FixtureRequest, server: ServerProcess, program_folder: Path) -> Iterator[Program]:
    """One process for all tests of a library."""
    with ExitStack() as stack:
        made = Program(CLIENTS[request.param], server.bootstrap, program_folder)
        stack.callback(made.stop)
        yield made


@pytest.fixture
def topic(program: Program, fresh: Callable[[str], str]) -> str:
    name = fresh("data")
    program.call("create_topic", topic=name, count=2)
    return name


def read(server: ServerProcess, topic: str, count: int) -> list[str]:
    """What librdkafka finds in partition 0."""
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


@pytest.mark.parametrize("idempotent", [False, True])
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


def test_an_admin_makes_looks_at_changes_and_deletes(program, fresh):
    name = fresh("admin")
    assert program.call("brokers") == 1
    assert program.call("topic", topic=name) == 0
    program.call("create_topic", topic=name, count=2, configs={"retention.ms": "60000"})
    assert program.call("topic", topic=name) == 2
    assert program.call("configs", topic=name)["retention.ms"] == "60000"
    program.call("set_config", topic=name, configs={"retention.ms": "70000"})
    assert program.call("configs", topic=name)["retention.ms"] == "70000"
    program.call("add_partitions", topic=name, count=4)
    assert program.call("topic", topic=name) == 4
    program.call("produce", topic=name, partition=3, values=["a", "b", "c"])
    assert program.call("end_offsets", partitions=[[name, 3]]) == [3]
    program.call("delete_records", topic=name, partition=3, offset=2)
    assert program.call("read_since", topic=name, partition=3, time_ms=0, count=1) == ["c"]
    program.call("delete_topic", topic=name)
    assert program.call("topic", topic=name) == 0


def test_an_admin_is_told_what_is_wrong(program, topic, fresh):
    with pytest.raises(ClientError, match=r"(?i)exist"):
        program.call("create_topic", topic=topic, count=1)
    with pytest.raises(ClientError, match=r"(?i)partitions"):
        program.call("add_partitions", topic=topic, count=1)
    with pytest.raises(ClientError, match=r"(?i)topic"):
        program.call("delete_topic", topic=fresh("nowhere"))


@pytest.mark.parametrize("client", list(CODECS))
def test_what_was_acknowledged_is_there_after_a_kill(client, coordinator_process, program_folder):
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

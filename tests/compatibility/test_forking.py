"""`coordinator serve --from` with real clients and a real Kafka 4.4: groups go on in the fork, and the source is untouched."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator import cli
from tests.compatibility.members import CLIENTS, Client, Program
from tests.compatibility.transaction_programs import Producer as TransactionalProducer
from tests.scenarios.conftest import wait_until_serving
from tests.support.java_support import java, kafka_classpath
from tests.support.kafka_broker import TOOLS, KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection, commit

QUIET = {"log_level": 0}
TOPIC = "letters"


def shown(bootstrap: str, capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    """The output of a command of ours as JSON."""
    capsys.readouterr()
    assert cli.main([*command, "--json", "--bootstrap", bootstrap]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def produce(bootstrap: str, topic: str, values: list[str], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(WITHIN_S) == 0


def next_record(bootstrap: str, group: str, protocol: str, topic: str = TOPIC) -> tuple[int, int, bytes]:
    """The first record that a member of the group gets. An offset out of range is an error, not a reset."""
    settings = {
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
    }
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **QUIET})
    consumer.subscribe([topic])
    found: list[Any] = []

    def is_read() -> bool:
        message = consumer.poll(1)
        if message is not None and (message.error() is None or message.error().code() == KafkaError._AUTO_OFFSET_RESET):
            found.append(message)
        return bool(found)

    wait_until(is_read, "a record")
    consumer.close()
    assert found[0].error() is None, found[0].error()
    return found[0].partition(), found[0].offset(), found[0].value()


# --- every client, and a fork of this server --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A fork of a server on which a group of every client has committed offset 4 of 10."""
    source, folder = (tmp_path_factory.mktemp(name) for name in ("source", "forked"))
    with ServerProcess(source) as server:
        with Connection(server.bootstrap) as link:
            wanted = {"name": "t", "num_partitions": 1, "replication_factor": 1}
            link.call("CreateTopics", 4, topics=[wanted], timeout_ms=10_000)
            for name in CLIENTS:
                commit(link, f"billing-{name}", {0: 4})
        produce(server.bootstrap, "t", ["old"] * 10)
        assert server.terminate() == 0
    with ServerProcess(folder, arguments=("--from", str(source / "data"))) as server:
        yield server


def test_every_client_passes_over_the_records_that_did_not_come_along(
    forked: ServerProcess, client: Client, start: Callable[[Client, ServerProcess], Program]
) -> None:
    """Its first record is the next one that is produced."""
    member = start(client, forked)
    member.join(f"billing-{client.name}", ["t"], name="a")
    member.wait_until(lambda: bool(member.owned), "its partition")
    value = f"for {client.name}"
    produce(forked.bootstrap, "t", [value])
    member.wait_until(lambda: value in member.values(), "the record")
    assert "old" not in member.values()
    member.call("commit")
    assert member.call("committed", partitions=[["t", 0]]) == [member.records[-1][2] + 1]


# --- forks of Kafka ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """A broker with groups of every kind, and a member that stays."""

    kafka: KafkaBroker
    open_producer: TransactionalProducer
    member: Program


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Its `__consumer_offsets` has compressed batches, tombstones, transactions with every outcome, and share groups."""
    folder = tmp_path_factory.mktemp("history")
    settings = {"offsets.topic.num.partitions": "7", "offsets.topic.compression.codec": "3"}
    kafka = KafkaBroker(folder / "kafka", settings | {"metadata.log.max.snapshot.interval.ms": "200"})
    kafka.start()
    member = None
    try:
        wait_until_serving(kafka.bootstrap)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, **QUIET})
        topics = [
            NewTopic(TOPIC, 2, 1, config={"retention.ms": "86400000"}),
            NewTopic("t", 6, 1),
            NewTopic("gone", 1, 1),
        ]
        for made in admin.create_topics(topics).values():
            made.result(WITHIN_S)
        for partition in (0, 1):
            produce(kafka.bootstrap, TOPIC, ["old"] * 20, partition)
        # A start that is not 0, and a committed offset before it.
        with Connection(kafka.bootstrap) as link:
            cut = [{"name": TOPIC, "partitions": [{"partition_index": 1, "offset": 5}]}]
            link.call("DeleteRecords", 2, topics=cut, timeout_ms=10_000)
        for protocol in ("classic", "consumer"):
            reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"left-{protocol}", **QUIET,
                               "group.protocol": protocol, "auto.offset.reset": "earliest",
                               "enable.auto.commit": False})  # fmt: skip
            reader.subscribe([TOPIC])
            assert len(reader.consume(35, WITHIN_S)) == 35
            reader.commit(offsets=[TopicPartition(TOPIC, 0, 7, metadata="note"), TopicPartition(TOPIC, 1, 11)],
                          asynchronous=False)  # fmt: skip
            reader.close()
        deleted = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "deleted", **QUIET})
        deleted.commit(offsets=[TopicPartition(TOPIC, 0, 1), TopicPartition("gone", 0, 0)], asynchronous=False)
        deleted.close()
        admin.delete_consumer_groups(["deleted"])["deleted"].result(WITHIN_S)
        admin.delete_topics(["gone"])["gone"].result(WITHIN_S)
        with Connection(kafka.bootstrap) as link:
            changed = [{"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}]
            resource = {"resource_type": 32, "resource_name": "left-consumer", "configs": changed}
            [answer] = link.call("IncrementalAlterConfigs", 1, resources=[resource])["responses"]
            assert answer["error_code"] == 0, answer
            done, aborted, still_open = (TransactionalProducer(link, name) for name in ("done", "aborted", "open"))
            done.commits({0: 5, 1: 6})
            done.ends(committed=True)
            aborted.commits({2: 7})
            aborted.ends(committed=False)
            still_open.commits({1: 9, 3: 8})
        share = ["--bootstrap-server", kafka.bootstrap, "--topic", TOPIC, "--group", "shared", "--timeout-ms", "3000"]
        command = java(kafka_classpath(TOOLS), "org.apache.kafka.tools.consumer.ConsoleShareConsumer", *share)
        subprocess.run(command, capture_output=True, check=False, timeout=60)
        member = Program(CLIENTS["java"], kafka.bootstrap, folder)
        member.join("stays", [TOPIC], name="a", protocol="consumer")
        member.wait_until(lambda: len(member.owned) == 2, "its partitions")
        member.wait_until(lambda: len(member.records) == 35, "the records")
        member.call("commit")
        yield History(kafka, still_open, member)
    finally:
        if member is not None:
            member.stop()
        kafka.stop()


def described(bootstrap: str, group: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `groups describe` says, without the address of the server."""
    [found] = shown(bootstrap, capsys, "groups", "describe", group)["groups"]
    return found | {"coordinator": ""}


def check_fork(history: History, forked: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    """Groups, offsets, lag, topics and configs are those of the source, and consumers go on."""
    source = history.kafka.bootstrap
    for group in ("left-classic", "left-consumer"):
        assert described(forked.bootstrap, group, capsys) == described(source, group, capsys)
    assert positions(described(forked.bootstrap, "left-classic", capsys)) == {0: (7, 20, "note\0"), 1: (11, 20, "")}
    ours, theirs = (described(bootstrap, "stays", capsys) for bootstrap in (forked.bootstrap, source))
    assert (ours["state"], ours["members"]) == ("Empty", [])
    assert (theirs["state"], len(theirs["members"])) == ("Stable", 1)
    assert (ours["epoch"], positions(ours)) == (theirs["epoch"], positions(theirs))
    transactional = described(forked.bootstrap, "g", capsys)
    assert {each["partition"]: each["offset"] for each in transactional["offsets"]} == {0: 5, 1: 6}
    [topic] = shown(forked.bootstrap, capsys, "topics", "describe", TOPIC)["topics"]
    [original] = shown(source, capsys, "topics", "describe", TOPIC)["topics"]
    for each in (*topic["partitions"], *original["partitions"]):
        for replicas in ("leader", "replicas", "in_sync"):
            each.pop(replicas)
    assert topic == original
    assert [(each["start"], each["end"]) for each in topic["partitions"]] == [(0, 20), (5, 20)]
    assert session_timeout(forked.bootstrap) == "50000"
    assert "transactions that were not decided: g (producer " in forked.log
    shared, original_shared = (described(bootstrap, "shared", capsys) for bootstrap in (forked.bootstrap, source))
    assert (shared["type"], shared["epoch"], shared["offsets"]) == (
        "share",
        original_shared["epoch"],
        original_shared["offsets"],
    )
    produce(forked.bootstrap, TOPIC, ["new"])
    assert next_record(forked.bootstrap, "left-classic", "classic") == (0, 20, b"new")
    assert next_record(forked.bootstrap, "left-consumer", "consumer") == (0, 20, b"new")


def positions(group: dict[str, Any]) -> dict[int, tuple[int, int, str]]:
    return {each["partition"]: (each["offset"], each["end"], each["metadata"]) for each in group["offsets"]}


def session_timeout(bootstrap: str) -> str:
    with Connection(bootstrap) as link:
        wanted = {
            "resource_type": 32,
            "resource_name": "left-consumer",
            "configuration_keys": ["consumer.session.timeout.ms"],
        }
        [found] = link.call("DescribeConfigs", 4, resources=[wanted])["results"]
    return str(found["configs"][0]["value"])


@pytest.mark.java
@pytest.mark.parametrize("how", ["network", "folder"])
def test_groups_of_a_running_kafka_go_on_in_a_fork(
    history: History, how: str, coordinator_process: Callable[..., ServerProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    """Over the network and from its folder, with another number of partitions. The source goes on undisturbed."""
    rebalances, before = history.member.rebalances(), described(history.kafka.bootstrap, "left-classic", capsys)
    source = history.kafka.bootstrap if how == "network" else str(history.kafka.data_dir)
    forked = coordinator_process(arguments=("--from", source), settings={"offsets.topic.num.partitions": 3})
    check_fork(history, forked, capsys)
    assert described(history.kafka.bootstrap, "left-classic", capsys) == before
    assert history.member.rebalances() == rebalances


@pytest.mark.java
def test_members_of_kafka_can_be_kept(
    history: History, coordinator_process: Callable[..., ServerProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    """The group waits for them as after a failover."""
    forked = coordinator_process(arguments=("--from", history.kafka.bootstrap, "--from-members", "keep"))
    assert described(forked.bootstrap, "stays", capsys) == described(history.kafka.bootstrap, "stays", capsys)
    assert "members: 1, kept" in forked.log


@pytest.mark.java
def test_the_folder_of_a_stopped_kafka_is_not_touched(
    history: History,
    coordinator_process: Callable[..., ServerProcess],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nor are copies of its partition folders alone, from which topics are inferred. (The last test: it stops the broker.)"""
    history.kafka.stop()
    before = contents(history.kafka.data_dir)
    whole = coordinator_process(arguments=("--from", str(history.kafka.data_dir)))
    assert contents(history.kafka.data_dir) == before
    # In a cluster that has run for long, older records of the metadata log are in its snapshot alone.
    shutil.copytree(history.kafka.data_dir, tmp_path / "aged")
    for segment in (tmp_path / "aged" / "__cluster_metadata-0").glob("*.log"):
        segment.unlink()
    aged = coordinator_process(arguments=("--from", str(tmp_path / "aged")))
    assert shown(aged.bootstrap, capsys, "topics", "list") == shown(whole.bootstrap, capsys, "topics", "list")
    for each in history.kafka.data_dir.glob("__consumer_offsets-*"):
        shutil.copytree(each, tmp_path / "copy" / each.name)
    alone = coordinator_process(arguments=("--from", str(tmp_path / "copy")))
    for group in ("left-classic", "left-consumer", "stays"):
        ours, theirs = (described(server.bootstrap, group, capsys) for server in (alone, whole))
        assert offsets_of(ours) == offsets_of(theirs)
        assert (ours["epoch"], ours["type"]) == (theirs["epoch"], theirs["type"])
    assert f"because the source names no topics: {TOPIC}, t" in alone.log
    topics = [shown(server.bootstrap, capsys, "topics", "describe", TOPIC)["topics"][0] for server in (alone, whole)]
    assert topics[0]["topic_id"] == topics[1]["topic_id"]
    produce(alone.bootstrap, TOPIC, ["new"])
    assert next_record(alone.bootstrap, "left-classic", "classic")[2] == b"new"


def offsets_of(group: dict[str, Any]) -> dict[int, int]:
    return {each["partition"]: each["offset"] for each in group["offsets"]}


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

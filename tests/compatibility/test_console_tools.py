"""Kafka's own console tools and Java's Admin against our server: topics, configs, groups, records, folders, replicas."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.java_support import compile_java, java, kafka_classpath
from tests.support.kafka_broker import KAFKA_TOOLS, TOOLS
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytestmark = pytest.mark.java

QUIET = {"log_level": 0}  # a client that outlives its server must not write after pytest's closing line
JAVA = Path(__file__).parent / "java"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"  # it is still in the server's own jar
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
FOLDERS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
LEADERS = "org.apache.kafka.tools.LeaderElectionCommand"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCE = "org.apache.kafka.tools.ConsoleProducer"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
SHARE = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_CONSUME = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool(server: ServerProcess) -> Iterator[Tool]:
    """Runs a tool against the shared server and checks its exit status; returns the text that it printed."""
    classpath = kafka_classpath((*TOOLS, f"org.apache.kafka:kafka_2.13:{KAFKA_TOOLS}"))
    classpath = compile_java(JAVA / "AdminCalls.java", compile_java(JAVA / "ConsoleTools.java", classpath))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(java(classpath, "ConsoleTools"), **pipes, text=True, encoding="utf-8") as process:

        def run(main: str, *arguments: str, given: str = "", exits: int = 0) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            fields = [main, given.replace("\n", "\x1e"), "--bootstrap-server", server.bootstrap, *arguments]
            process.stdin.write("\x1f".join(fields) + "\n")
            process.stdin.flush()
            said = process.stdout.readline().rstrip("\n").replace("\x1e", "\n")
            assert said[:1] == str(exits), said
            return said[1:]

        yield run
        process.kill()


@pytest.fixture
def topic(fresh: Callable[[str], str]) -> str:
    return fresh("tools")


def test_kafka_topics(tool: Tool, topic: str) -> None:
    made = tool(TOPICS, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=1000000")
    assert f"Created topic {topic}" in made
    tool(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    described = tool(TOPICS, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=1000000", described)
    assert described.count("Leader: 1") == 3
    assert "not be an increase" in tool(TOPICS, "--alter", "--topic", topic, "--partitions", "1", exits=1)
    tool(TOPICS, "--delete", "--topic", topic)
    assert topic not in tool(TOPICS, "--list").splitlines()


def test_kafka_configs(tool: Tool, topic: str, server: ServerProcess) -> None:
    Producer({"bootstrap.servers": server.bootstrap, **QUIET}).list_topics(topic, 10)
    about = ["--entity-type", "topics", "--entity-name", topic]
    changes = "max.message.bytes=5000,cleanup.policy=[compact,delete]"
    assert "Completed updating config" in tool(CONFIGS, *about, "--alter", "--add-config", changes)
    described = tool(CONFIGS, *about, "--describe")
    assert "max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=5000" in described
    assert "cleanup.policy=compact,delete" in described
    tool(CONFIGS, *about, "--alter", "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in tool(CONFIGS, *about, "--describe")
    assert "Not a number" in tool(CONFIGS, *about, "--alter", "--add-config", "retention.ms=soon", exits=1)
    broker = tool(CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "auto.create.topics.enable=true" in broker
    assert f"advertised.listeners=PLAINTEXT://{server.bootstrap}" in broker
    assert f"log.dirs={server.data_dir.resolve()}" in broker
    brokers = ["--entity-type", "brokers"]
    assert "Default configs for brokers in the cluster are:\n  min.insync.replicas=1" in tool(
        CONFIGS, *brokers, "--entity-default", "--describe"
    )
    first = [*brokers, "--entity-name", "1"]
    tool(CONFIGS, *first, "--alter", "--add-config", "message.max.bytes=1000000")
    assert "synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=1000000, DEFAULT_CONFIG" in tool(
        CONFIGS, *first, "--describe"
    )
    tool(CONFIGS, *first, "--alter", "--delete-config", "message.max.bytes")
    assert "message.max.bytes" not in tool(CONFIGS, *first, "--describe")
    refused = tool(CONFIGS, *first, "--alter", "--add-config", "node.id=2", exits=1)
    assert "Cannot update these configs dynamically: [node.id]" in refused
    groups = ["--entity-type", "groups"]
    tool(CONFIGS, *groups, "--entity-name", topic, "--alter", "--add-config", "consumer.session.timeout.ms=46000")
    assert re.search(rf"group {topic} are:\n +consumer.session.timeout.ms=46000", tool(CONFIGS, *groups, "--describe"))
    interval = "group.rebalance.interval.ms"
    tool(CONFIGS, *groups, "--entity-name", topic, "--alter", "--add-config", f"{interval}=60000")
    assert f"{interval}=60000" in tool(CONFIGS, *groups, "--entity-name", topic, "--describe")
    refused = tool(CONFIGS, *groups, "--entity-name", topic, "--alter", "--add-config", f"{interval}=1", exits=1)
    assert f"{interval} must be greater than or equal to 10000" in refused


def test_quotas_are_set_listed_and_removed(tool: Tool) -> None:
    users, clients, addresses = (("--entity-type", kind) for kind in ("users", "clients", "ips"))
    app = (*clients, "--entity-name", "quota-app")
    assert "Completed updating config" in tool(CONFIGS, *app, "--alter", "--add-config", "producer_byte_rate=1024")
    assert tool(CONFIGS, *app, "--describe").strip() == (
        "Quota configs for client-id 'quota-app' are producer_byte_rate=1024.0"
    )
    both = (*users, "--entity-name", "ann", *app)
    tool(CONFIGS, *both, "--alter", "--add-config", "request_percentage=12.5,consumer_byte_rate=7")
    described = tool(CONFIGS, *both, "--describe")
    assert "for user-principal 'ann', client-id 'quota-app'" in described
    assert "request_percentage=12.5" in described
    tool(CONFIGS, *users, "--entity-default", "--alter", "--add-config", "controller_mutation_rate=100000")
    tool(CONFIGS, *addresses, "--entity-name", "127.0.0.9", "--alter", "--add-config", "connection_creation_rate=9")
    assert "for ip '127.0.0.9' are connection_creation_rate=9.0" in tool(CONFIGS, *addresses, "--describe")
    refused = tool(CONFIGS, *app, "--alter", "--add-config", "producer_byte_rate=0", exits=1)
    assert "Quota producer_byte_rate must be greater than 0" in refused
    # The users with credentials of SCRAM are in the same list.
    ben = (*users, "--entity-name", "ben")
    tool(CONFIGS, *ben, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=b]")
    listed = tool(CONFIGS, *users, "--describe")
    assert "Quota configs for the default user-principal are controller_mutation_rate=100000.0" in listed
    assert "SCRAM credential configs for user-principal 'ben' are SCRAM-SHA-256=iterations=4096" in listed
    tool(CONFIGS, *ben, "--alter", "--delete-config", "SCRAM-SHA-256")
    tool(CONFIGS, *both, "--alter", "--delete-config", "request_percentage,consumer_byte_rate")
    tool(CONFIGS, *app, "--alter", "--delete-config", "producer_byte_rate")
    tool(CONFIGS, *users, "--entity-default", "--alter", "--delete-config", "controller_mutation_rate")
    tool(CONFIGS, *addresses, "--entity-name", "127.0.0.9", "--alter", "--delete-config", "connection_creation_rate")
    assert "Quota" not in "".join(tool(CONFIGS, *each, "--describe") for each in (users, clients, addresses))


def test_records_in_and_out_with_their_offsets(tool: Tool, topic: str, tmp_path: Path) -> None:
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "1")
    tool(PRODUCE, "--topic", topic, "--compression-codec", "lz4", given="one\ntwo\nthree\nfour\n")
    ask = [CONSUME, "--topic", topic, "--partition", "0", "--timeout-ms", "20000"]
    said = tool(*ask, "--offset", "1", "--max-messages", "3")
    assert said.split()[:3] == ["two", "three", "four"]
    wanted = tmp_path / "delete.json"
    wanted.write_text(f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": 2}}], "version": 1}}')
    assert "low_watermark: 2" in tool(RECORDS, "--offset-json-file", str(wanted))
    assert f"{topic}:0:2" in tool(OFFSETS, "--topic", topic, "--time", "earliest")
    assert f"{topic}:0:4" in tool(OFFSETS, "--topic", topic, "--time", "latest")
    # The four may have the same timestamp, and then Kafka names the first one, although it is deleted.
    tool(PRODUCE, "--topic", topic, given="five\n")
    assert f"{topic}:0:5" in tool(OFFSETS, "--topic", topic, "--time", "latest")
    assert f"{topic}:0:4" in tool(OFFSETS, "--topic", topic, "--time", "max-timestamp")
    assert f'"partition":"{topic}-0"' in tool(FOLDERS, "--describe", "--topic-list", topic)
    election = ["--election-type", "preferred", "--topic", topic, "--partition", "0"]
    assert "Valid replica already elected" in tool(LEADERS, *election)


def test_the_console_consumer_skips_generations_without_an_assignment(
    tool: Tool, topic: str, server: ServerProcess, fresh: Callable[[str], str]
) -> None:
    """Kafka's formatters read on behind a record that they do not know."""
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "1")
    group = fresh("formed")
    with Connection(server.bootstrap) as link:
        joined = link.call(
            "JoinGroup", 3, group_id=group, session_timeout_ms=60_000, rebalance_timeout_ms=60_000,
            protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
        )  # fmt: skip
        member = {"group_id": group, "member_id": joined["member_id"]}
        assert link.call("SyncGroup", 3, **member, generation_id=1, assignments=[])["error_code"] == 0
        offsets = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 7}]}]
        link.call("OffsetCommit", 8, **member, generation_id_or_member_epoch=1, topics=offsets)
    # More than one formatter, because each has its own way of skipping.
    for formatter, shown in (
        ("GroupMetadataMessageFormatter", f'"generation":1,"protocol":"range","leader":"{joined["member_id"]}"'),
        ("OffsetsMessageFormatter", f'"group":"{group}","topic":"{topic}","partition":0'),
    ):
        said = tool(
            CONSUME, "--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "5000",
            "--formatter", f"org.apache.kafka.tools.consumer.{formatter}",
        )  # fmt: skip
        assert shown in said, said[-2000:]


def test_kafka_share_groups_and_the_console_share_consumer(tool: Tool, topic: str) -> None:
    group = ("--group", topic)
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "1")
    tool(PRODUCE, "--topic", topic, given="one\ntwo\nthree\nfour\n")
    tool(
        CONFIGS, "--entity-type", "groups", "--entity-name", topic,
        "--alter", "--add-config", "share.auto.offset.reset=earliest",
    )  # fmt: skip
    consume = [SHARE_CONSUME, "--topic", topic, *group, "--timeout-ms", "20000", "--max-messages"]
    assert tool(*consume, "2").splitlines()[:2] == ["one", "two"]
    assert re.search(rf"{topic}\s+Share\s+Empty", tool(SHARE, "--list", "--state")) or topic in tool(SHARE, "--list")
    assert re.search(rf"{topic}\s.*Empty\s+0", tool(SHARE, "--describe", *group, "--state"))
    assert "has no active members" in tool(SHARE, "--describe", *group, "--members")
    assert re.search(rf"{topic}\s+{topic}\s+0\s+2\s+2", tool(SHARE, "--describe", *group, "--offsets"))
    reset = [SHARE, *group, "--topic", topic, "--reset-offsets"]
    assert re.search(rf"{topic}\s+{topic}\s+0\s+0", tool(*reset, "--to-earliest", "--execute"))
    assert tool(*consume, "4").splitlines()[:4] == ["one", "two", "three", "four"]
    assert re.search(rf"{topic}\s+Successful", tool(SHARE, *group, "--delete-offsets", "--topic", topic))
    assert not re.search(rf"{topic}\s+{topic}\s+0", tool(SHARE, "--describe", *group, "--offsets"))
    assert "successful" in tool(SHARE, *group, "--delete")
    assert topic not in tool(SHARE, "--list")


def test_kafka_metadata_quorum(tool: Tool) -> None:
    status = tool(QUORUM, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", status), status
    assert re.search(r'CurrentVoters:\s+\[\{"id": 1\}\]\s+CurrentObservers:\s+\[\]', status), status
    replication = tool(QUORUM, "describe", "--replication")
    assert re.search(r"^1\s+A{22}\s+\d+\s+0\s+\d+\s+\d+\s+Leader", replication, re.MULTILINE), replication


def test_kafka_reassign_partitions_finds_every_replica_in_its_place(
    tool: Tool, topic: str, server: ServerProcess, tmp_path: Path
) -> None:
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2")
    folder = str(server.data_dir.resolve())
    moves = [
        {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [folder]},
        {"topic": topic, "partition": 1, "replicas": [1]},
    ]
    plan = tmp_path / "moves.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    wanted = ["--reassignment-json-file", str(plan)]
    executed = tool(REASSIGN, *wanted, "--execute")
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in executed
    assert f"Successfully started moving log directory to {folder} for replica {topic}-0 with broker 1" in executed
    verified = tool(REASSIGN, *wanted, "--verify")
    assert f"Reassignment of partition {topic}-1 is completed." in verified
    assert f"Reassignment of replica {topic}-0-1 completed successfully." in verified
    assert "No partition reassignments found." in tool(REASSIGN, "--list")
    assert "None of the specified partition reassignments are active." in tool(REASSIGN, *wanted, "--cancel")


def test_javas_admin_describes_the_one_node(tool: Tool, topic: str, server: ServerProcess) -> None:
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "1")
    folder = str(server.data_dir.resolve())
    said = tool("AdminCalls", topic, "1", folder)
    shown = dict(line.split(": ", 1) for line in said.strip().splitlines())
    assert {"message.max.bytes", "min.insync.replicas"} <= set(shown.pop("may be altered").strip("[]").split(", "))
    assert shown == {
        "quorum": "1 1 0",
        "quorum is durable": "true",
        "move here": "null",
        "move elsewhere": "InvalidReplicaAssignmentException",
        "move and add": "InvalidReplicaAssignmentException",
        "cancel": "NoReassignmentInProgressException",
        "move of an unknown partition": "UnknownTopicOrPartitionException",
        "moves": "{}",
        "moves of one": "{}",
        "own folder": "null",
        "other folder": "LogDirNotFoundException",
        "folder": folder,
        "address": f"PLAINTEXT://{server.bootstrap}",
        "type": "LIST",
        "source": "STATIC_BROKER_CONFIG",
        "all are documented": "true",
        "altered": "InvalidRequestException",
    }


def test_kafka_consumer_groups(tool: Tool, topic: str, server: ServerProcess) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, **QUIET})
    for number in range(5):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(20)
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": topic, **QUIET})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    described = tool(GROUPS, "--describe", "--group", topic)
    assert re.search(rf"{topic}\s+{topic}\s+0\s+2\s+5\s+3\s", described)
    assert topic in tool(GROUPS, "--list").split()
    reset = ["--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest", "--execute"]
    assert re.search(rf"{topic}\s+{topic}\s+0\s+0", tool(GROUPS, *reset))
    assert "was successful" in tool(GROUPS, "--delete", "--group", topic)


def test_kafka_streams_groups(tool: Tool, topic: str, server: ServerProcess) -> None:
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2")
    producer = Producer({"bootstrap.servers": server.bootstrap, **QUIET})
    for number in range(5):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(20)
    group = ["--entity-type", "groups", "--entity-name", topic]
    tool(CONFIGS, *group, "--alter", "--add-config", "streams.initial.rebalance.delay.ms=0")
    assert "streams.initial.rebalance.delay.ms=0" in tool(CONFIGS, *group, "--describe")
    about = {"group_id": topic, "member_id": "ann"}
    topology = {"epoch": 7, "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}]}
    nothing: dict[str, list[object]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    joining = {"member_epoch": 0, "rebalance_timeout_ms": 30_000, "process_id": "one", "topology": topology}
    with Connection(server.bootstrap) as connection:
        assert connection.call("StreamsGroupHeartbeat", 1, **about, **joining, **nothing)["member_epoch"] == 2
        committed = {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 2}]}
        answer = connection.call("OffsetCommit", 9, **about, generation_id_or_member_epoch=2, topics=[committed])
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0

        assert re.search(rf"{topic}\s+Stable", tool(STREAMS, "--list", "--state"))
        state = tool(STREAMS, "--describe", "--group", topic, "--state", "--verbose")
        assert re.search(rf"{topic}\s+{server.bootstrap}\s+\(1\)\s+Stable\s+2\s+2\s+1\s*$", state), state
        members = tool(STREAMS, "--describe", "--group", topic, "--members", "--verbose")
        assert re.search(rf"{topic}\s+2\s+7\s+ann\s+streams\s+2\s+one\s+test\s+ACTIVE: 0:\[0,1\]", members), members
        offsets = tool(STREAMS, "--describe", "--group", topic, "--offsets")
        assert re.search(rf"{topic}\s+{topic}\s+0\s+3\s*$", offsets, re.MULTILINE), offsets
        # Kafka's tool reports this failure and exits with 0.
        assert "is not EMPTY" in tool(STREAMS, "--delete", "--group", topic)
        connection.call("StreamsGroupHeartbeat", 1, **about, member_epoch=-1)
    reset = tool(
        STREAMS, "--reset-offsets", "--group", topic, "--input-topic", f"{topic}:0", "--to-earliest", "--execute"
    )
    assert re.search(rf"{topic}\s+{topic}\s+0\s+0", reset), reset
    assert "was successful" in tool(STREAMS, "--delete", "--group", topic)
    assert topic not in tool(STREAMS, "--list").split()


def test_kafka_transactions_lists_describes_and_aborts(tool: Tool, topic: str, server: ServerProcess) -> None:
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "1")
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": topic, **QUIET})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"never to be read", partition=0)
    producer.flush(20)
    assert re.search(rf"{topic}\s+1\s+\d+\s+Ongoing", tool(TRANSACTIONS, "list"))
    assert topic not in tool(TRANSACTIONS, "list", "--duration-filter", "3600000")
    assert topic in tool(TRANSACTIONS, "list", "--transactional-id-pattern", f"{topic[:-1]}.")
    described = tool(TRANSACTIONS, "describe", "--transactional-id", topic)
    assert re.search(rf"{topic}\s+\d+\s+0\s+Ongoing\s+60000\s.*{topic}-0", described)
    writing = tool(TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0")
    assert re.search(r"\d+\s+0\s+-1\s+0\s+\d+\s+0$", writing.strip()), writing
    assert topic not in tool(TRANSACTIONS, "find-hanging", "--broker-id", "1"), "it is open, and known to be"
    tool(TRANSACTIONS, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    writing = tool(TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0")
    assert re.search(r"\d+\s+0\s+0\s+0\s+\d+\s+None$", writing.strip()), writing
    producer.abort_transaction(20)
    assert "CompleteAbort" in tool(TRANSACTIONS, "describe", "--transactional-id", topic)

"""`coordinator groups ...` on this server and, if there are Java and Maven, on Kafka, with the same results."""

import json
import signal
import socket
import subprocess
import sys
import uuid
from functools import partial

import pytest

from coordinator import cli
from coordinator.protocol.subscription import Assignment, Subscription, encode_assignment, encode_subscription
from tests.support.background import Background
from tests.support.record_batch import Batch
from tests.support.waiting import wait_until
from tests.support.wire import Connection

SUBSCRIPTION = encode_subscription(Subscription(("t",), None, {}, -1, None, 1))


@pytest.fixture
def connection(bootstrap):
    with Connection(bootstrap) as connection:
        finding = {"key": "ready?", "key_type": 0}
        wait_until(lambda: connection.call("FindCoordinator", 3, **finding)["error_code"] == 0, "a coordinator")
        wait_until(
            lambda: connection.call("DescribeGroups", 5, groups=["ready?"])["groups"][0]["error_code"] == 0,
            "the groups to be loaded",
        )
        yield connection


@pytest.fixture
def topic(connection):
    """A topic with two partitions, of which the first has three records."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    wanted = {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    answer = connection.call("CreateTopics", 5, topics=[wanted], timeout_ms=10_000)
    assert answer["topics"][0]["error_code"] == 0
    data = [{"index": 0, "records": Batch(values=[b"a", b"b", b"c"]).encode()}]
    producing = {"acks": 1, "timeout_ms": 10_000, "topic_data": [{"name": name, "partition_data": data}]}

    def produced() -> bool:
        (answer,) = connection.call("Produce", 8, **producing)["responses"]
        return answer["partition_responses"][0]["error_code"] == 0

    wait_until(produced, "the new topic to have its leaders")
    return name


@pytest.fixture
def group():
    return f"group-{uuid.uuid4().hex[:8]}"


def commit(connection, group, topic, offset):
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
    answer = connection.call("OffsetCommit", 8, group_id=group, topics=[{"name": topic, "partitions": [partition]}])
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0


def join(connection, group, topic):
    """Joins a member that is assigned both partitions of the topic. Returns its id."""
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    asked = {"group_id": group, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}
    asked |= {"protocol_type": "consumer", "protocols": protocols}
    member_id = connection.call("JoinGroup", 5, **asked, member_id="")["member_id"]
    joined = connection.call("JoinGroup", 5, **asked, member_id=member_id)
    assignment = encode_assignment(Assignment({topic: (0, 1)}, None, 1))
    synced = connection.call(
        "SyncGroup", 3, group_id=group, generation_id=joined["generation_id"], member_id=member_id,
        assignments=[{"member_id": member_id, "assignment": assignment}],
    )  # fmt: skip
    assert synced["error_code"] == 0
    return member_id


@pytest.fixture
def run(command):
    return partial(command, "groups")


def test_the_list_has_types_and_states_and_can_be_filtered_by_them(run, connection, topic, group):
    commit(connection, group, topic, 1)
    listed = {each["group_id"]: each for each in json.loads(run("list", "--json"))["groups"]}
    assert listed[group] == {"group_id": group, "type": "classic", "protocol_type": "", "state": "Empty"}
    header, *rows = run("list").splitlines()
    assert header.split() == ["GROUP", "TYPE", "PROTOCOL-TYPE", "STATE"]
    assert [group, "classic", "-", "Empty"] in [row.split() for row in rows]
    assert group not in run("list", "--state", "Stable")
    assert group in run("list", "--state", "Empty", "--type", "classic")


def test_a_description_has_members_with_partitions_and_offsets_with_lag(run, connection, topic, group):
    commit(connection, group, topic, 1)
    member_id = join(connection, group, topic)
    [described] = json.loads(run("describe", group, "--json"))["groups"]
    assert (described["state"], described["type"], described["protocol"]) == ("Stable", "classic", "range")
    assert described["members"][0]["assignment"] == {topic: [0, 1]}
    first, second = described["offsets"]
    assert (first["offset"], first["end"], first["lag"], first["metadata"]) == (1, 3, 2, "note")
    assert (first["owner"], second["owner"]) == (member_id, member_id)
    assert (second["offset"], second["end"], second["lag"]) == (None, 0, None)
    shown = run("describe", group)
    assert f"{topic}:0,1" in shown
    assert "Stable" in shown


def test_the_description_of_a_streams_group_has_tasks_and_partitions(run, connection, topic, group):
    commit(connection, group, topic, 1)
    delay = {"name": "streams.initial.rebalance.delay.ms", "config_operation": 0, "value": "0"}
    change = {"resource_type": 32, "resource_name": group, "configs": [delay]}
    connection.call("IncrementalAlterConfigs", 1, resources=[change])
    about = {"group_id": group, "member_id": "ann"}
    joining = {
        "member_epoch": 0, "rebalance_timeout_ms": 30_000, "process_id": "p", "active_tasks": [], "standby_tasks": [],
        "warmup_tasks": [],
        "topology": {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}]},
    }  # fmt: skip
    wait_until(
        lambda: connection.call("StreamsGroupHeartbeat", 1, **about, **joining)["member_epoch"] == 2,
        "the new setting to be in force",
    )
    listed = {each["group_id"]: each for each in json.loads(run("list", "--json", "--type", "streams"))["groups"]}
    assert listed[group] == {"group_id": group, "type": "streams", "protocol_type": "streams", "state": "Stable"}
    [described] = json.loads(run("describe", group, "--json"))["groups"]
    assert (described["type"], described["state"], described["epoch"]) == ("streams", "Stable", 2)
    [member] = described["members"]
    assert (member["tasks"], member["assignment"]) == ({"active": {"0": [0, 1]}}, {topic: [0, 1]})
    first, second = described["offsets"]
    assert (first["offset"], first["lag"], first["owner"], second["owner"]) == (1, 2, "ann", "ann")
    shown = run("describe", group)
    assert "active 0:0,1" in shown
    assert "TASKS" in shown
    assert "not deleted" in run("delete", group, expect=1)
    connection.call("StreamsGroupHeartbeat", 1, **about, member_epoch=-1)
    assert "deleted" in run("delete", group)


def test_the_offsets_of_a_share_group_are_where_its_partitions_start(run, connection, topic, group):
    about = {"group_id": group, "member_id": "ann"}
    member = connection.call("ShareGroupHeartbeat", 1, **about, member_epoch=0, subscribed_topic_names=[topic])

    def has_partitions() -> bool:
        """A busy Kafka may have an epoch without partitions in between."""
        member.update(connection.call("ShareGroupHeartbeat", 1, **about, member_epoch=member["member_epoch"]))
        assigned = member["assignment"]
        return assigned is not None and any(len(each["partitions"]) == 2 for each in assigned["topic_partitions"])

    wait_until(has_partitions, "the member to have its partitions")
    listed = {each["group_id"]: each for each in json.loads(run("list", "--json", "--type", "share"))["groups"]}
    assert listed[group] == {"group_id": group, "type": "share", "protocol_type": "share", "state": "Stable"}
    [described] = json.loads(run("describe", group, "--json"))["groups"]
    assert (described["type"], described["protocol"], described["epoch"]) == ("share", "simple", member["member_epoch"])
    assert described["members"][0]["assignment"] == {topic: [0, 1]}
    assert [(each["offset"], each["lag"], each["owner"]) for each in described["offsets"]] == [(None, None, "ann")] * 2
    assert f"{topic}:0,1" in run("describe", group)
    reset = ("reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    assert "stop them before" in run(*reset, expect=1)
    assert "not deleted" in run("delete", group, expect=1)
    connection.call("ShareGroupHeartbeat", 1, **about, member_epoch=-1)
    assert "done" in run(*reset)
    rows = json.loads(run("offsets", group, "--json"))["offsets"]
    assert [(each["partition"], each["offset"], each["lag"]) for each in rows] == [(0, 0, 3), (1, 0, 0)]
    moved = json.loads(run("reset-offsets", group, "--all-topics", "--shift-by", "2", "--json", "--execute"))
    assert [(each["old"], each["new"]) for each in moved["partitions"]] == [(0, 2), (0, 0)]
    assert json.loads(run("offsets", group, "--json"))["offsets"][0]["lag"] == 1
    assert "deleted" in run("delete", group)


def test_offsets_shows_those_of_a_group_without_members(run, connection, topic, group):
    commit(connection, group, topic, 2)
    [row] = json.loads(run("offsets", group, "--json"))["offsets"]
    assert (row["topic"], row["partition"], row["offset"], row["lag"], row["owner"]) == (topic, 0, 2, 1, None)


def test_delete_removes_a_group_unless_it_has_members(run, connection, topic, group):
    commit(connection, group, topic, 1)
    assert "deleted" in run("delete", group)
    assert run("describe", group, expect=1) == f"coordinator: there is no group {group}\n"
    join(connection, group, topic)
    assert "NON_EMPTY_GROUP" in run("delete", group, expect=1)
    outcome = json.loads(run("delete", group, "--json", expect=1))
    assert outcome == {"groups": [{"group_id": group, "error": "NON_EMPTY_GROUP"}]}


@pytest.mark.parametrize(
    ("target", "new"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 3),
        (("--to-offset", "2"), 2),
        (("--to-offset", "99"), 3),
        (("--shift-by", "-1"), 0),
        (("--shift-by", "1"), 2),
        (("--to-datetime", "2020-01-01T00:00:00Z"), 0),
        (("--to-datetime", "2100-01-01"), 3),
    ],
)
def test_a_reset_without_execute_is_only_a_plan(run, connection, topic, group, target, new):
    commit(connection, group, topic, 1)

    def offset():
        return json.loads(run("offsets", group, "--json"))["offsets"][0]["offset"]

    planned = json.loads(run("reset-offsets", group, "--all-topics", *target, "--json"))
    assert planned["partitions"] == [{"topic": topic, "partition": 0, "old": 1, "new": new}]
    assert (planned["executed"], offset()) == (False, 1)
    assert run("reset-offsets", group, "--all-topics", *target, "--execute").endswith("done\n")
    assert offset() == new


def test_a_reset_can_create_a_group(run, topic, group):
    run("reset-offsets", group, "--topic", f"{topic}:0", "--to-latest", "--execute")
    [row] = json.loads(run("offsets", group, "--json"))["offsets"]
    assert (row["partition"], row["offset"]) == (0, 3)


def test_a_reset_is_refused_while_the_group_has_members(run, connection, topic, group):
    join(connection, group, topic)
    error = run("reset-offsets", group, "--topic", topic, "--to-latest", "--execute", expect=1)
    assert error == f"coordinator: group {group} is Stable and has 1 member(s): stop them before resetting offsets\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topic", "no-such-topic", "--to-latest"), "there is no topic no-such-topic"),
        (("--topic", "no:x", "--to-latest"), "TOPIC:PARTITION"),
        (("--all-topics", "--to-latest"), "has no offsets"),
        (("--to-latest",), "specify partitions"),
        (("--all-topics", "--to-datetime", "yesterday"), "ISO 8601"),
    ],
)
def test_the_reason_why_a_reset_is_impossible_is_one_line(run, group, connection, arguments, words):
    error = run("reset-offsets", group, *arguments, expect=1)
    assert error.count("\n") == 1
    assert words in error


# --- not a Kafka server -----------------------------------------------------------------------------------------------


def refused(capsys, bootstrap):
    assert cli.main(["groups", "list", "--bootstrap", bootstrap, "--timeout", "0.3"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_the_error_for_a_server_that_is_down_is_one_line(capsys):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert f"cannot connect to 127.0.0.1:{port}: Connection refused" in refused(capsys, f"127.0.0.1:{port}")
    assert "a bootstrap server must be HOST:PORT" in refused(capsys, "nowhere")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (b"\0\0\0\x05\0\0\0\1\xff", "not one to ApiVersions"),
        (b"", "closed the connection"),
        (None, "did not respond"),
    ],
)
def test_the_error_for_a_server_that_is_not_kafka_is_one_line(capsys, answer, words):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                if answer is None:
                    connection.recv(1000)
                else:
                    connection.sendall(answer)

        thread = Background(serve)
        error = refused(capsys, f"127.0.0.1:{listener.getsockname()[1]}")
        thread.finish()
    assert words in error


def test_the_second_bootstrap_server_is_used_if_the_first_is_down(bootstrap, capsys):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        down = f"127.0.0.1:{unused.getsockname()[1]}"
        assert cli.main(["groups", "list", "--bootstrap", f"{down},{bootstrap}"]) == 0
    assert "GROUP" in capsys.readouterr().out


def test_watch_shows_a_group_again_and_again_until_ctrl_c(bootstrap, connection, topic, group):
    commit(connection, group, topic, 1)
    command = [sys.executable, "-m", "coordinator", "groups", "offsets", group, "--bootstrap", bootstrap]
    watching = subprocess.Popen([*command, "--watch", "--interval", "0.1"], stdout=subprocess.PIPE, text=True)

    def shown(lag: int) -> None:
        for line in watching.stdout:
            if line.split()[:5] == [topic, "0", str(3 - lag), "3", str(lag)]:
                return
        raise AssertionError(f"a lag of {lag} was never shown")

    try:
        shown(2)
        commit(connection, group, topic, 3)
        shown(0)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
    finally:
        watching.kill()
        watching.wait()
        watching.stdout.close()

"""A real server records the outcome of real requests, across crashes, and serves its events to those who fetch them by name."""

import json
import subprocess
import sys
import threading
import time
import urllib.request

from tests.events.event_dump import RecordedEvents, dump
from tests.support.protocol_client import ProtocolMember, wait_for_correct_group
from tests.support.record_batch import read_batches
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection, ConnectionClosed

NONE, UNKNOWN_TOPIC, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID = 0, 3, 22, 25
FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH = 110, 113
INVALID_SESSION_TIMEOUT, INVALID_REQUEST = 26, 42
TOPICS = [{"name": "orders", "partitions": 4}]
FEW = {"offsets.topic.num.partitions": 2, "topics": TOPICS}
EVENTS = "__coordinator_events"


def commit(link, group, offsets, *, member_id="", epoch=-1, version=9, **fields):
    """Commits offsets of `orders`; returns partition -> error."""
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
        for index, offset in offsets.items()
    ]
    answer = link.call(
        "OffsetCommit", version, group_id=group, generation_id_or_member_epoch=epoch, member_id=member_id,
        topics=[{"name": "orders", "partitions": partitions}], **fields,
    )  # fmt: skip
    return {each["partition_index"]: each["error_code"] for each in answer["topics"][0]["partitions"]}


def beat(link, group, member_id, epoch, **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["orders"], "topic_partitions": []} | fields
    else:
        fields = {"subscribed_topic_names": None, "topic_partitions": None} | fields
    fields |= {"subscribed_topic_regex": None}
    return link.call(
        "ConsumerGroupHeartbeat", 1, group_id=group, member_id=member_id, member_epoch=epoch, **fields
    )  # fmt: skip


def events_after_stop(server):
    """Stops the server and returns its events."""
    server.terminate()
    return RecordedEvents(server.data_dir)


def commit_ten_offsets(server):
    with Connection(server.bootstrap) as link:
        for offset in range(10):
            commit(link, "g", {0: offset})


def event_segment(server):
    """The only segment of the event logs that is not empty."""
    (segment,) = [path for path in server.data_dir.glob(f"{EVENTS}-*/*.log") if path.stat().st_size]
    return segment


def owned(answer):
    return [
        {"topic_id": each["topic_id"], "partitions": each["partitions"]}
        for each in answer["assignment"]["topic_partitions"]
    ]


def test_a_classic_group_emits_events_from_its_first_member_to_its_last(coordinator_process):
    server = coordinator_process(settings=FEW)
    first = ProtocolMember(server.bootstrap, "g", "one", 4).start()
    wait_for_correct_group(server.bootstrap, [first])
    second = ProtocolMember(server.bootstrap, "g", "two", 4).start()
    wait_for_correct_group(server.bootstrap, [first, second])
    generation = first.generation
    with Connection(server.bootstrap, "admin") as link:
        assert commit(link, "g", {1: 7}, member_id=first.member_id, epoch=generation) == {1: NONE}
        assert commit(link, "g", {1: 8}, member_id=first.member_id, epoch=generation - 1) == {1: ILLEGAL_GENERATION}
        link.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="stranger")
        leaving = [{"member_id": second.member_id, "group_instance_id": None, "reason": "asked to leave"}]
        second.die()
        with Connection(server.bootstrap, "two") as own:
            own.call("LeaveGroup", 5, group_id="g", members=leaving)
        wait_for_correct_group(server.bootstrap, [first])
    first.die()
    events = events_after_stop(server)
    joined = events.of("MemberJoined")
    assert [(each.member_id, each.client_id, each.epoch) for each in joined] == [
        (first.member_id, "one", 1),
        (second.member_id, "two", generation),
    ]
    assert all(each.group_kind == 0 and each.client_host == "/127.0.0.1" for each in joined)
    started, completed = events.of("RebalanceStarted"), events.of("RebalanceCompleted")
    assert [each.epoch for each in started] == [each.epoch for each in completed] == [1, 2, 3]
    assert [each.member_id for each in started] == [first.member_id, second.member_id, second.member_id]
    assert [each.cause for each in completed] == ["a new member joins", "a new member joins", "a member left"]
    assert [each.members for each in completed] == [1, 2, 1]
    assert started[2].reason == "asked to leave"
    assert {each["member_id"] for each in completed[1].waited_for} == {first.member_id, second.member_id}
    assert all(each.duration_ms >= 0 for each in completed)
    (left,) = events.of("MemberLeft")
    assert (left.member_id, left.reason) == (second.member_id, "asked to leave")
    fenced = events.of("MemberFenced")
    assert ("stranger", UNKNOWN_MEMBER_ID, "Heartbeat") in [(e.member_id, e.error_code, e.api) for e in fenced]
    delivered = events.of("AssignmentDelivered")
    assert [each.epoch for each in delivered] == [1, 2, 2, 3]
    assert all(each.assignment is not None for each in delivered), "these members' assignments are bytes of their own"
    accepted, refused = events.of("CommitDecided")
    assert (accepted.error_code, accepted.member_epoch, accepted.generation_id_or_member_epoch) == (
        NONE,
        generation,
        generation,
    )
    assert accepted.offsets == {("orders", 1): (7, NONE)}
    assert (refused.error_code, refused.member_epoch) == (ILLEGAL_GENERATION, generation)
    assert refused.offsets == {("orders", 1): (8, ILLEGAL_GENERATION)}
    assert {each.client_id for each in (accepted, refused)} == {"admin"}


def test_events_of_a_consumer_group_have_the_verdict_of_each_policy(coordinator_process):
    server = coordinator_process(settings=FEW | {"group.consumer.assignment.interval.ms": 0})
    with Connection(server.bootstrap, "app") as link:
        answer = beat(link, "g", "a", 0)
        assert answer["error_code"] == NONE
        epoch = answer["member_epoch"]
        beat(link, "g", "a", epoch, topic_partitions=owned(answer))
        assert beat(link, "g", "b", 0)["member_epoch"] == epoch + 1
        answer = beat(link, "g", "a", epoch)
        assert answer["member_epoch"] == epoch, "it has to give up half of it first"
        kept = owned(answer)
        answer = beat(link, "g", "a", epoch, topic_partitions=kept)
        assert answer["member_epoch"] == epoch + 1
        beat(link, "g", "b", epoch + 1)
        (mine,) = [each["partitions"] for each in kept]
        lost = min(set(range(4)) - set(mine))
        assert commit(link, "g", {mine[0]: 5}, member_id="a", epoch=epoch + 1) == {mine[0]: NONE}
        assert commit(link, "g", {mine[0]: 6}, member_id="a", epoch=epoch) == {mine[0]: STALE_MEMBER_EPOCH}
        assert commit(link, "g", {lost: 7}, member_id="a", epoch=epoch) == {lost: STALE_MEMBER_EPOCH}
        assert commit(link, "g", {lost: 7}, member_id="ghost", epoch=epoch) == {lost: UNKNOWN_MEMBER_ID}
        assert beat(link, "g", "a", epoch - 1)["error_code"] == FENCED_MEMBER_EPOCH
        beat(link, "g", "a", -1)
    events = events_after_stop(server)
    decided = events.of("CommitDecided")
    verdicts = [(e.strict_verdict, e.revocation_epoch_verdict, e.assignment_epoch_verdict) for e in decided]
    assert verdicts == [(1, 1, 1), (2, 2, 1), (2, 2, 2), (2, 2, 2)]
    assert [e.error_code for e in decided] == [NONE, STALE_MEMBER_EPOCH, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID]
    assert {e.policy for e in decided} == {"revocation-epoch"}
    assert [(e.member_epoch, e.revocation_epoch) for e in decided] == [(epoch + 1, epoch)] * 3 + [(-1, -1)]
    assert [e.topics[0]["partitions"][0]["assignment_epoch"] for e in decided] == [epoch, epoch, -1, -1]
    delivered = [(e.member_id, e.epoch, e.partitions) for e in events.of("AssignmentDelivered")]
    assert delivered[0] == ("a", epoch, {"orders": [0, 1, 2, 3]})
    assert ("a", epoch, {"orders": sorted(mine)}) in delivered
    acknowledged = [(e.member_id, e.epoch, e.partitions) for e in events.of("AssignmentAcknowledged")]
    assert acknowledged == [("a", epoch, {"orders": [0, 1, 2, 3]}), ("a", epoch, {"orders": sorted(mine)})]
    assert [(e.member_id, e.epoch) for e in events.of("MemberLeft")] == [("a", epoch + 1)]
    (fenced,) = events.of("MemberFenced")
    assert (fenced.api, fenced.epoch, fenced.error_code) == ("ConsumerGroupHeartbeat", epoch - 1, FENCED_MEMBER_EPOCH)
    completed = events.of("RebalanceCompleted")
    assert [e.group_kind for e in completed] == [1] * len(completed)
    assert {each["member_id"] for each in completed[1].waited_for} == {"a", "b"}


def test_commits_without_a_member_or_to_unknown_partitions_emit_events(coordinator_process):
    server = coordinator_process(settings=FEW)
    with Connection(server.bootstrap, "admin") as link:
        assert commit(link, "tools", {0: 3, 9: 4}) == {9: UNKNOWN_TOPIC, 0: NONE}
        assert commit(link, "tools", {9: 4}) == {9: UNKNOWN_TOPIC}
    events = events_after_stop(server)
    both, none = events.of("CommitDecided", "tools")
    assert both.offsets == {("orders", 0): (3, NONE), ("orders", 9): (4, UNKNOWN_TOPIC)}
    assert none.offsets == {("orders", 9): (4, UNKNOWN_TOPIC)}
    assert (both.member_id, both.generation_id_or_member_epoch) == ("", -1)


def test_a_refused_heartbeat_or_join_leaves_its_message_in_the_log_and_the_events(coordinator_process):
    server = coordinator_process(settings=FEW)
    with Connection(server.bootstrap) as link:
        for _ in range(2):
            refused = beat(link, "g", "m", 0, rebalance_timeout_ms=-1)
        join = {"session_timeout_ms": 1, "rebalance_timeout_ms": 1, "protocol_type": "consumer", "protocols": []}
        link.call("JoinGroup", 5, group_id="g", member_id="", group_instance_id=None, **join)
    assert server.log.count("event=request_refused") == 2
    assert 'message="RebalanceTimeoutMs must be provided in first request."' in server.log
    refusals = events_after_stop(server).of("RequestRefused", "g")
    found = [(each.api, each.error_code, each.error_message) for each in refusals]
    assert found[:2] == [("ConsumerGroupHeartbeat", INVALID_REQUEST, refused["error_message"])] * 2
    assert found[2:] == [
        ("JoinGroup", INVALID_SESSION_TIMEOUT, "a session timeout of 1 ms is not between 100 and 1800000 ms")
    ]


def test_events_of_transactional_commits_have_the_producer(coordinator_process):
    server = coordinator_process(settings=FEW)
    with Connection(server.bootstrap, "copier") as link:
        given = link.call("InitProducerId", 4, transactional_id="tx", transaction_timeout_ms=10_000)
        assert given["error_code"] == NONE
        producer = {"producer_id": given["producer_id"], "producer_epoch": given["producer_epoch"]}
        link.call("AddOffsetsToTxn", 3, transactional_id="tx", group_id="g", **producer)
        partition = {"partition_index": 2, "committed_offset": 12, "committed_metadata": ""}
        for member_id, epoch in (("", -1), ("ghost", 4)):
            link.call(
                "TxnOffsetCommit", 3, transactional_id="tx", group_id="g", generation_id_or_member_epoch=epoch,
                member_id=member_id, topics=[{"name": "orders", "partitions": [partition]}], **producer,
            )  # fmt: skip
        link.call("EndTxn", 3, transactional_id="tx", committed=True, **producer)
    events = events_after_stop(server)
    accepted, refused = events.of("CommitDecided", "g")
    assert (accepted.error_code, accepted.offsets) == (NONE, {("orders", 2): (12, NONE)})
    assert (refused.member_id, refused.error_code) == ("ghost", UNKNOWN_MEMBER_ID)
    for event in (accepted, refused):
        assert (event.transactional_id, event.producer_id, event.producer_epoch) == ("tx", *producer.values())


def test_a_group_that_changes_its_kind_emits_events(coordinator_process):
    server = coordinator_process(settings=FEW)
    with Connection(server.bootstrap, "app") as link:
        joining = {
            "group_id": "g", "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"}],
        }  # fmt: skip
        answer = link.call("JoinGroup", 3, member_id="", **joining)
        classic = {"group_id": "g", "generation_id": answer["generation_id"], "member_id": answer["member_id"]}
        assignment = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x02\xff\xff\xff\xff"
        link.call("SyncGroup", 3, assignments=[{"member_id": answer["member_id"], "assignment": assignment}], **classic)
        assert beat(link, "g", "modern", 0)["error_code"] == NONE
        assert beat(link, "g", "modern", -1)["error_code"] == NONE
    events = events_after_stop(server)
    (delivered, *_) = events.of("AssignmentDelivered")
    assert (delivered.group_kind, delivered.partitions, delivered.assignment) == (0, {"orders": [2]}, None)
    converted = events.of("GroupConverted")
    assert [(e.from_kind, e.to_kind, e.member_id, e.members) for e in converted] == [
        (0, 1, "modern", 1),
        (1, 0, "modern", 1),
    ]


def test_after_repeated_kills_every_acknowledged_commit_has_an_event(coordinator_process):
    server = coordinator_process(settings=FEW)
    acknowledged = []
    over = threading.Event()

    def work():
        offset = 0
        while not over.is_set():
            try:
                with Connection(server.bootstrap, "worker") as link:
                    while not over.is_set():
                        offset += 1
                        if commit(link, "g", {0: offset}) == {0: NONE}:
                            acknowledged.append(offset)
            except (ConnectionClosed, OSError):
                time.sleep(0.02)  # the server is down

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    for kill in range(1, 5):
        wait_until(lambda: len(acknowledged) >= 40 * kill, f"{40 * kill} acknowledged commits")  # noqa: B023
        server.restart(kill=True)
    over.set()
    worker.join(WITHIN_S)
    assert not worker.is_alive()
    events = events_after_stop(server)
    decided = events.of("CommitDecided", "g")
    assert {offset for event in decided for offset, _ in event.offsets.values()} >= set(acknowledged)
    log = decided[0].log
    state = [row["value"]["offset"] for row in dump(server.data_dir / log.replace(EVENTS, "__consumer_offsets"))]
    assert [state[event.state_offset] for event in decided] == [event.offsets["orders", 0][0] for event in decided]
    opened = [event for event in events.of("EventLogOpened") if event.log == log]
    assert [event.cause for event in opened] == ["start"] * 5
    assert [event.covered_state_offset for event in opened[1:]] == [event.state_offset for event in opened[1:]]
    (closed,) = [event for event in events.of("EventLogClosed") if event.log == log]
    assert closed.state_offset == len(state)


def test_missing_events_are_reported_at_the_next_start(coordinator_process):
    server = coordinator_process(settings=FEW)
    commit_ten_offsets(server)
    server.terminate()
    segment = event_segment(server)
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.truncate(size // 2)
    server.start()
    with urllib.request.urlopen(f"{server.admin}/metrics", timeout=60) as answer:
        assert b"coordinator_event_log_gaps_total 1.0" in answer.read()
    assert "event=events_missing" in server.log
    events = events_after_stop(server)
    opened = events.of("EventLogOpened")[-1]
    left = events.of("CommitDecided")
    assert 0 < len(left) < 10
    assert (opened.covered_state_offset, opened.state_offset) == (len(left), 10)


def test_a_damaged_event_log_does_not_prevent_commits(coordinator_process):
    server = coordinator_process(settings=FEW)
    commit_ten_offsets(server)
    server.terminate()
    segment = event_segment(server)
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2)
        file.write(b"\xff" * 16)
    server.start()
    with Connection(server.bootstrap) as link:
        assert commit(link, "g", {0: 11}) == {0: NONE}
    with urllib.request.urlopen(f"{server.admin}/health/ready", timeout=60) as answer:
        said = json.loads(answer.read())
    assert said["status"] == "ready"
    assert "cannot be opened" in said["events_lost"][0]
    checked = subprocess.run(
        [sys.executable, "-m", "coordinator", "log", "check", str(segment.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 1
    assert "damage" in checked.stdout


def test_events_can_be_fetched_by_name_but_are_not_listed(coordinator_process):
    server = coordinator_process(settings={"offsets.topic.num.partitions": 1, "topics": TOPICS})
    with Connection(server.bootstrap) as link:
        commit(link, "g", {0: 1})
        listed = link.call("Metadata", 9, topics=None)["topics"]
        names = {topic["name"] for topic in listed}
        assert "orders" in names
        assert names <= {"orders", "__consumer_offsets", "__share_group_state", "__transaction_state"}
        (named,) = link.call("Metadata", 9, topics=[{"name": EVENTS}])["topics"]
        assert (named["error_code"], named["is_internal"], len(named["partitions"])) == (NONE, True, 1)
        fetched = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic": EVENTS, "partitions": [fetched]}]
        answer = link.call("Fetch", 11, max_bytes=1 << 20, max_wait_ms=0, topics=topics)
        (partition,) = answer["responses"][0]["partitions"]
        assert (partition["error_code"], partition["high_watermark"]) == (NONE, 2)
        (batch,) = read_batches(partition["records"])
        assert len(batch.values) == 2
        data = [{"name": EVENTS, "partition_data": [{"index": 0, "records": batch.encode()}]}]
        refused = link.call("Produce", 8, acks=-1, timeout_ms=1_000, topic_data=data)["responses"][0]
        assert refused["partition_responses"][0]["error_code"] != NONE


def test_a_setting_selects_the_events(coordinator_process):
    server = coordinator_process(settings=FEW | {"coordinator.events": "refused"})

    def work():
        with Connection(server.bootstrap) as link:
            commit(link, "g", {0: 1})
            commit(link, "g", {0: 2}, member_id="m", epoch=3)

    work()
    events = events_after_stop(server)
    assert [event.offsets["orders", 0][0] for event in events.of("CommitDecided")] == [2]
    server.settings["coordinator.events"] = "none"
    server.start()
    work()
    events = events_after_stop(server)
    assert [event.offsets["orders", 0][0] for event in events.of("CommitDecided")] == [2]
    server.settings["coordinator.events"] = "all"
    server.start()
    work()
    events = events_after_stop(server)
    assert [event.offsets["orders", 0][0] for event in events.of("CommitDecided")] == [2, 1, 2]
    opened = events.of("EventLogOpened")
    assert [event.policy for event in opened] == ["refused", "all"]
    assert (opened[1].covered_state_offset, opened[1].state_offset) == (1, 2), "no events were written in between"


def test_a_server_that_never_wrote_events_has_no_event_topic(coordinator_process):
    server = coordinator_process(settings=FEW | {"coordinator.events": "none"})
    with Connection(server.bootstrap) as link:
        commit(link, "g", {0: 1})
        (named,) = link.call("Metadata", 9, topics=[{"name": EVENTS}], allow_auto_topic_creation=True)["topics"]
        assert (named["error_code"], named["is_internal"]) == (UNKNOWN_TOPIC, True)
    assert list(server.data_dir.glob(f"{EVENTS}*")) == []

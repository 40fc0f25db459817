"""Fault rules as real clients meet them: what they retry, what they give up, and that nothing is lost or done twice."""

import uuid

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until

TOPIC = "orders"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {
        "durability": "write",
        "offsets.topic.num.partitions": 1,
        "admin.control.enable": "true",
        "group.initial.rebalance.delay.ms": 0,
    }
    with ServerProcess(tmp_path_factory.mktemp("rules"), settings=settings) as server:
        yield server


@pytest.fixture
def http(server):
    with httpx.Client(base_url=f"{server.admin}/v1", timeout=httpx.Timeout(WITHIN_S)) as client:
        yield client
        client.delete("/faults")
        client.delete("/recordings")


def set_fault(http, match, action, **extent):
    answer = http.post("/faults", json={"match": match, "action": action, "extent": extent})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def reached(http, fault, until):
    path = f"/faults/{fault}"
    return http.get(path, params={"until": until, "timeout_ms": int(WITHIN_S * 1000)}).json()["reached"]


def consumer(server, group, **settings):
    return Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            **settings,
        }
    )


def test_a_producer_repeats_a_produce_whose_answer_was_lost_and_the_records_are_there_once(server, http):
    topic = f"once-{uuid.uuid4()}"
    producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "reconnect.backoff.ms": 10})
    producer.list_topics(topic, timeout=WITHIN_S)
    fault = set_fault(http, {"api": "Produce", "topic": topic}, {"lose": "answer"})
    failures = []
    producer.produce(topic, b"value", on_delivery=lambda error, message: failures.append(error))
    assert producer.flush(WITHIN_S) == 0
    assert failures == [None]
    assert reached(http, fault, "acted:1")
    reader = consumer(server, "nobody")
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=WITHIN_S) == (0, 1)
    reader.close()


def test_a_commit_that_is_refused_has_no_effect_and_the_next_one_has(server, http):
    group = f"refused-{uuid.uuid4()}"
    committer = consumer(server, group)
    set_fault(http, {"api": "OffsetCommit", "group": group}, {"error": "TOPIC_AUTHORIZATION_FAILED"})
    offsets = [TopicPartition(TOPIC, 0, 7)]
    with pytest.raises(KafkaException) as refused:
        committer.commit(offsets=offsets, asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    (before,) = committer.committed([TopicPartition(TOPIC, 0)], timeout=WITHIN_S)
    committer.commit(offsets=offsets, asynchronous=False)
    (after,) = committer.committed([TopicPartition(TOPIC, 0)], timeout=WITHIN_S)
    assert (before.offset, after.offset) == (-1001, 7)
    committer.close()


def test_a_member_that_is_fenced_joins_again_and_a_recording_shows_how(server, http):
    group = f"fenced-{uuid.uuid4()}"
    recording = http.post("/recordings", json={"match": {"group": group}}).json()["id"]
    member = consumer(server, group)
    member.subscribe([TOPIC])

    def polls_until(condition):
        wait_until(lambda: member.poll(0.05) is None and condition())

    polls_until(lambda: bool(member.assignment()))
    fault = set_fault(http, {"api": "Heartbeat", "group": group}, {"error": "ILLEGAL_GENERATION"})

    def entries(api):
        found = http.get(f"/recordings/{recording}").json()["entries"]
        return [entry for entry in found if entry["api"] == api and entry["outcome"] == "answered"]

    def joined_again():
        refused = [entry for entry in entries("Heartbeat") if entry["fault"] == fault]
        return any(
            not join["response"]["error"] and join["number"] > refused[0]["number"]
            for join in entries("JoinGroup")
            if refused
        )

    polls_until(joined_again)
    polls_until(lambda: bool(member.assignment()))
    assert entries("JoinGroup")[-1]["request"]["protocols"][0]["topics"] == [TOPIC]
    assert entries("SyncGroup")[-1]["response"]["assignment"][0]["topic"] == TOPIC
    member.close()


def test_a_member_joins_a_group_whose_coordinator_moves_meanwhile(server, http):
    group = f"away-{uuid.uuid4()}"
    fault = set_fault(http, {"group": group}, {"coordinator": "moved"}, times=3)
    member = consumer(server, group)
    member.subscribe([TOPIC])
    wait_until(lambda: member.poll(0.05) is None and bool(member.assignment()))
    assert reached(http, fault, "acted:3")
    member.close()

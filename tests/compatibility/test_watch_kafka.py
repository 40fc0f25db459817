"""`coordinator watch` of a live Kafka: what it shows is what its clients did, and what Kafka itself says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.admin_client import view
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until
from tests.support.watching import RECORDS, Story, Watcher, check_seen, events

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    settings = {"offsets.topic.num.partitions": "5", "group.consumer.heartbeat.interval.ms": "300"}
    settings["group.consumer.min.heartbeat.interval.ms"] = "300"
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), settings)
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_watcher_shows_what_clients_of_kafka_did(tmp_path: Path, kafka: KafkaBroker, protocol: str) -> None:
    """A watcher that reads along, and one that comes afterwards, show the same."""
    story = Story(kafka.bootstrap, protocol, f"group-{protocol}", f"topic-{protocol}")
    try:
        story.join("early")  # makes the internal topics
        story.leave("early")
        with Watcher(tmp_path / "along", kafka.bootstrap, "--history", "0") as along:
            wait_until(lambda: along.is_ready, lambda: along.log[-3_000:])
            seen = story.play()
            check_seen(along, story, seen)
            with Watcher(tmp_path / "afterwards", kafka.bootstrap) as afterwards:
                wait_until(lambda: afterwards.is_ready, lambda: afterwards.log[-3_000:])
                same = ("CommitDecided", "OffsetsRewound", "RebalanceCompleted")
                for type_ in same:
                    wanted = [_content(each) for each in events(along, story.group, type_)]
                    assert [_content(each) for each in events(afterwards, story.group, type_)][-len(wanted) :] == wanted
    finally:
        story.close()


def _content(event: dict[str, object]) -> dict[str, object]:
    """An event without its place in the event log."""
    return {name: value for name, value in event.items() if name not in {"offset", "state_end_offset"}}


def test_transactions_of_kafka_are_shown(tmp_path: Path, kafka: KafkaBroker) -> None:
    """An offset of an open transaction is pending, and is committed with the transaction."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    story = Story(kafka.bootstrap, "classic", "transactional", "transactional")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(30)
    try:
        story.join("reader")
        with Watcher(tmp_path / "w", kafka.bootstrap) as watcher:
            wait_until(lambda: watcher.is_ready, lambda: watcher.log[-3_000:])
            producer.begin_transaction()
            reader: Consumer = story.clients["reader"]
            offsets = [TopicPartition("transactional", 0, RECORDS // 4)]
            producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 30)
            [pending] = wait_until(lambda: watcher.group("transactional").get("pending"), "a pending offset")
            assert (pending["offset"], pending["transactional_id"]) == (RECORDS // 4, "writer")
            assert view(watcher, "/v1/transactions/writer")["state"] == "Ongoing"
            producer.commit_transaction(30)
            found = wait_until(lambda: watcher.group("transactional").get("committed"), "the offset to be committed")
            assert [(each["partition"], each["offset"]) for each in found] == [(0, RECORDS // 4)]
    finally:
        story.close()

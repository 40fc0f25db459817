"""Compaction recompresses batches on the server: every library must be able to read them."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.members import Client, Program
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until

CODECS = ("gzip", "snappy", "lz4", "zstd")
READS_ONLY = {"kafkajs": ("gzip", "snappy"), "kafka_python": ("gzip",)}
"""The other codecs require packages that are not installed here."""
LONG = 200
"""Values that are worth compressing and span more than one compression block."""


def values_of(key: int, turn: int) -> str:
    return f"key {key}, turn {turn}: " + f"{key * 7919 + turn} " * LONG


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a compacted topic for each codec, in which half of a batch has been overwritten."""
    with ServerProcess(tmp_path_factory.mktemp("compacted"), settings={"log.cleaner.backoff.ms": 50}) as server:
        quiet = {"bootstrap.servers": server.bootstrap, "log_level": 0}
        configs = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
        admin = AdminClient(quiet)  # kept: a discarded object cancels its requests
        made = admin.create_topics([NewTopic(codec, 1, 1, config=configs) for codec in CODECS])
        for future in made.values():
            future.result(WITHIN_S)
        for codec in CODECS:
            producer = Producer(quiet | {"compression.type": codec, "linger.ms": 100})
            for turn, keys in enumerate((range(300), range(0, 300, 2), (999,))):
                for key in keys:
                    producer.produce(codec, values_of(key, turn), key=str(key))
                assert producer.flush(WITHIN_S) == 0
                time.sleep(0.002)  # a segment holds one: the next batch goes to another segment
        for codec in CODECS:
            wait_until_compacted(quiet, codec)
        yield server


def wait_until_compacted(quiet: dict, topic: str) -> None:
    consumer = Consumer(quiet | {"group.id": "look", "enable.auto.commit": False, "enable.partition.eof": True})

    def values() -> list[str]:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found, ended = [], False
        while not ended:
            for message in consumer.consume(1_000, 0.5):
                ended = ended or message.error() is not None
                found += [] if message.error() else [message.value().decode()]
        return found

    wait_until(lambda: values() == expected(), lambda: f"{topic} to be compacted: {len(values())} records")
    consumer.close()


def expected() -> list[str]:
    return [
        *(values_of(key, 0) for key in range(1, 300, 2)),
        *(values_of(key, 1) for key in range(0, 300, 2)),
        values_of(999, 2),
    ]


@pytest.mark.foreign  # which client is a parameter
def test_every_library_reads_it(
    client: Client,
    compacted: ServerProcess,
    start: Callable[[Client, ServerProcess], Program],
    fresh: Callable[[str], str],
) -> None:
    codecs = READS_ONLY.get(client.name, CODECS)
    member = start(client, compacted)
    member.join(fresh("group"), list(codecs), name="reader")
    member.wait_until(lambda: len(member.records) >= len(codecs) * len(expected()), "all records")
    for codec in codecs:
        assert [value for topic, _, _, value in member.records if topic == codec] == expected(), codec

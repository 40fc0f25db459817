"""UpdateFeatures is answered as by Kafka 4.4, and what it sets holds at once and for good.

`kafka_4_4_features.jsonl` is a conversation with Kafka; `pytest -m java tests/config --rewrite` records it again.
"""

from contextlib import closing
from pathlib import Path

import pytest

from tests.support.kafka_broker import KafkaBroker
from tests.support.recorded import Recorded
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

RECORDED = Recorded(Path(__file__).with_name("kafka_4_4_features.jsonl"))
UPGRADE, SAFE_DOWNGRADE = 1, 2
UNSUPPORTED_VERSION = 35
HEARTBEAT = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def levels(link):
    """The finalized levels, and their epoch."""
    answer = link.call("ApiVersions", 4, client_software_name="test", client_software_version="1")
    assert {each["name"] for each in answer["supported_features"]} == {
        "group.version", "metadata.version", "share.version", "streams.version", "transaction.version",
    }  # fmt: skip
    found = {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}
    return found, answer["finalized_features_epoch"]


def update(link, upgrade_type=UPGRADE, **wanted):
    updates = [
        {"feature": name.replace("_", "."), "max_version_level": level, "upgrade_type": upgrade_type}
        for name, level in wanted.items()
    ]
    return link.call("UpdateFeatures", 2, feature_updates=updates)["error_code"]


def test_a_conversation_about_features_goes_as_with_kafka(tmp_path):
    with ServerProcess(tmp_path) as server, closing(Connection(server.bootstrap)) as link:
        for line in RECORDED.lines:
            assert RECORDED.said(link, line) == line


def test_a_level_holds_at_once_and_survives_a_kill(tmp_path):
    with ServerProcess(tmp_path) as server:
        with closing(Connection(server.bootstrap)) as link:
            before, epoch = levels(link)
            assert before == {
                "group.version": 1, "metadata.version": 33, "share.version": 2, "streams.version": 1,
                "transaction.version": 2,
            }  # fmt: skip
            assert epoch == 0
            assert update(link, SAFE_DOWNGRADE, group_version=0, transaction_version=1) == 0
            assert link.call("ConsumerGroupHeartbeat", 1, **HEARTBEAT)["error_code"] == UNSUPPORTED_VERSION
            changed, later = levels(link)
            assert changed == {
                "metadata.version": 33,
                "share.version": 2,
                "streams.version": 1,
                "transaction.version": 1,
            }
            assert later > epoch
        server.restart(kill=True)
        with closing(Connection(server.bootstrap)) as link:
            assert levels(link)[0] == changed
            assert levels(link)[1] >= later
            assert link.call("ConsumerGroupHeartbeat", 1, **HEARTBEAT)["error_code"] == UNSUPPORTED_VERSION
            assert update(link, group_version=1, transaction_version=2) == 0
            assert link.call("ConsumerGroupHeartbeat", 1, **HEARTBEAT)["error_code"] == 0
            assert levels(link)[0] == before


@pytest.mark.thorough
@pytest.mark.java
def test_kafka_answers_so(tmp_path, request):
    broker = KafkaBroker(tmp_path)
    broker.start()
    try:
        with Connection(broker.bootstrap) as link:
            found = RECORDED.said_by_kafka(link, rewrite=request.config.getoption("--rewrite"))
            assert found == RECORDED.lines
    finally:
        broker.stop()

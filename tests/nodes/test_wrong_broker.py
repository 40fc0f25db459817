"""A broker that is the wrong one answers as a broker of Kafka 4.4 does. The answers of Kafka are kept beside this file."""

import json
from pathlib import Path

import pytest

from coordinator_testing.throwaway_server import ThrowawayServer
from tests.nodes.wrong_broker import answers
from tests.support.kafka_cluster import KafkaCluster

EXPECTED = Path(__file__).parent / "kafka_4_4_wrong_broker.json"


def test_a_broker_refuses_what_another_one_leads_as_kafka_does(tmp_path: Path) -> None:
    server = ThrowawayServer(tmp_path, ["nodes=3", "nodes.racks=a"]).start()
    try:
        found = answers(server.bootstrap_servers)
    finally:
        server.stop()
    assert found == json.loads(EXPECTED.read_text())


@pytest.mark.thorough
def test_kafka_answers_what_is_expected_here(request: pytest.FixtureRequest) -> None:
    with KafkaCluster({"broker.rack": "a"}) as kafka:
        found = answers(kafka.bootstrap)
    if request.config.getoption("--rewrite"):
        EXPECTED.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(EXPECTED.read_text())

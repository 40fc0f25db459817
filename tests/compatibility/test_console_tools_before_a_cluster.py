"""Kafka's console tools against a server in front of a real broker: the same promises as against the server alone."""

from collections.abc import Iterator

import pytest

from tests.compatibility.test_console_tools import (  # noqa: F401 - fixtures and tests, which run here with another server
    test_kafka_consumer_groups,
    test_kafka_topics,
    test_records_in_and_out_with_their_offsets,
    tool,
    topic,
)
from tests.support.before_cluster import before
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        with before(tmp_path_factory.mktemp("overlay"), broker.bootstrap) as server:
            yield server
    finally:
        broker.stop()

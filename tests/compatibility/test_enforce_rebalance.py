"""KIP-568 with Kafka's own consumer, on our server and on Kafka: `enforceRebalance` leads to a rebalance, whoever calls it.

The KIP promises that it happens immediately and always. For a leader a coordinator always rebalances. For a follower it does so
because Kafka's consumer puts its generation into its subscription: after each generation its metadata differ from those
of its last JoinGroup. (A client that sends the same metadata again is treated as repeating itself: test_generation_id.py.)
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.members import JAVA_ARTIFACTS
from tests.support.java_support import compile_java, kafka_classpath, run_java
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

SOURCE = Path(__file__).parent / "java" / "EnforceRebalance.java"

EAGER = " +1 enforcing [revoked 2, assigned 2] other [revoked 2, assigned 2]"
COOPERATIVE = " +1 enforcing [assigned 0] other [assigned 0]"
EXPECTED = [
    f"{assignor} {identity} {role}:{once * 2}"
    for assignor, once in (("range", EAGER), ("cooperative-sticky", COOPERATIVE))
    for identity in ("dynamic", "static")
    for role in ("leader", "follower")
]


@pytest.fixture(params=["ours", pytest.param("kafka", marks=pytest.mark.thorough)])
def coordinator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as stack:
        if request.param == "ours":
            yield stack.enter_context(ServerProcess(tmp_path))
        else:
            kafka = KafkaBroker(tmp_path / "kafka").start()
            stack.callback(kafka.stop)
            yield kafka


@pytest.mark.java
def test_every_enforced_rebalance_of_a_java_consumer_rebalances_the_group_once(coordinator):
    with Connection(coordinator.bootstrap) as link:
        topic = {"name": "enforced", "num_partitions": 4, "replication_factor": 1}
        assert link.call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)["topics"][0]["error_code"] == 0
    classpath = compile_java(SOURCE, kafka_classpath(JAVA_ARTIFACTS))
    done = run_java(classpath, "EnforceRebalance", coordinator.bootstrap, "enforced", "-1")
    assert done.returncode == 0, done.stderr[-3_000:]
    assert done.stdout.splitlines() == EXPECTED
    # KIP-800: the client's reason.
    assert coordinator.log.count("a test of range-static-follower-1") >= 2

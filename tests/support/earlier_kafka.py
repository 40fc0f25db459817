"""A real broker of an earlier release of Kafka, beside which this server is that release.

One node on loopback with its jars from Maven: with KRaft, before 3.3 with a ZooKeeper of its own, as the releases were
recorded. Where Java or Maven is missing the test skips with a reason.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from coordinator.config.features import UPGRADE
from coordinator.protocol.releases import releases
from tests.support.java_support import java, kafka_classpath
from tests.support.kafka_broker import FOR_ONE_NODE, STARTED_WITHIN_S, STOPPED_WITHIN_S, new_cluster_id
from tests.support.ports import HeldPort
from tests.support.waiting import wait_until
from tests.support.wire import Connection, ConnectionClosed

TEST_MARKERS = ("kafka",)

ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class EarlierKafka:
    """One broker and its folder. `version`: a patch release, such as "2.8.2"."""

    def __init__(self, folder: Path, version: str, settings: Mapping[str, str] | None = None):
        self.classpath = _classpath(version)
        self.folder = folder
        self.settings = dict(settings or {})
        self.has_zookeeper = tuple(map(int, version.split("."))) < (3, 3)
        self._held = [HeldPort(), HeldPort()]
        self._processes: list[subprocess.Popen[bytes]] = []
        self.bootstrap, self.metadata_address = (held.address for held in self._held)

    def start(self) -> Self:
        """Returns when the broker answers."""
        config = self.folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        if self.has_zookeeper:
            ensemble = self.folder / "zookeeper.properties"
            port = self._held[1].port
            ensemble.write_text(f"dataDir={self.folder / 'zookeeper'}\nclientPort={port}\nadmin.enableServer=false\n")
            self._run(ZOOKEEPER, str(ensemble))
        else:
            command = java(
                self.classpath, "kafka.tools.StorageTool", "format", "-t", new_cluster_id(), "-c", str(config)
            )
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"Kafka could not format its folder:\n{done.stdout}{done.stderr}"
        self._start_broker()
        return self

    def _start_broker(self) -> None:
        self._run("kafka.Kafka", str(self.folder / "server.properties"))
        wait_until(self._answers, lambda: f"Kafka to start:\n{self.log[-3000:]}", 3 * STARTED_WITHIN_S)

    def upgrade(self, version: str) -> None:
        """Stops the broker and starts one of another release on its data and ports. Returns when it answers."""
        classpath = _classpath(version)
        _end(self._processes.pop())
        self.classpath = classpath
        self._start_broker()

    def finalize(self, release: str) -> None:
        """Does what `kafka-features.sh upgrade --release-version` does after an upgrade to a release such as "4.1"."""
        levels = releases()[release].feature_levels.items()
        updates = [{"feature": name, "max_version_level": level, "upgrade_type": UPGRADE} for name, level in levels]

        def is_done() -> bool:
            with Connection(self.bootstrap) as link:
                return not link.call("UpdateFeatures", 1, timeout_ms=30_000, feature_updates=updates)["error_code"]

        wait_until(is_done, "features to be finalized")

    def _settings(self) -> dict[str, str]:
        common = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": str(self.folder / "data")}
        common |= FOR_ONE_NODE | self.settings
        if self.has_zookeeper:
            return common | {"broker.id": "1", "zookeeper.connect": self.metadata_address}
        return common | {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.metadata_address}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.metadata_address}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }

    def _run(self, main: str, argument: str) -> None:
        with (self.folder / "broker.log").open("ab") as log:
            command = java(self.classpath, main, argument, heap_mib=512)
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def _answers(self) -> bool:
        assert all(process.poll() is None for process in self._processes), f"Kafka ended:\n{self.log[-3000:]}"
        try:
            with Connection(self.bootstrap) as link:
                return link.call("ApiVersions", 0)["error_code"] == 0
        except (OSError, ConnectionClosed):
            return False

    def wait_until_serving(self) -> None:
        """Makes the topics `orders` and `events`, and returns when they and the coordinators are ready."""
        make_topics(self.bootstrap)

    @property
    def log(self) -> str:
        return (self.folder / "broker.log").read_text(errors="replace")

    def stop(self) -> None:
        """Ends the broker, then its ZooKeeper; by SIGKILL if an orderly shutdown takes too long."""
        for held in self._held:
            held.release()
        for process in reversed(self._processes):
            _end(process)


def _classpath(version: str) -> str:
    return kafka_classpath((f"org.apache.kafka:kafka_2.13:{version}",))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOPPED_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def make_topics(bootstrap: str) -> None:
    """Makes the topics `orders` and `events`, and returns when they and the broker's coordinators are ready."""
    with Connection(bootstrap) as link:
        wait_until(lambda: _serves(link), "a coordinator that answers")


def _serves(link: Connection) -> bool:
    """Whether the broker has the topics of the histories, and its coordinators are ready."""
    wanted = [{"name": name, "num_partitions": 4, "replication_factor": 1} for name in ("orders", "events")]
    link.call("CreateTopics", 2, topics=wanted, timeout_ms=10_000)
    found = link.call(
        "Metadata", 4, topics=[{"name": each["name"]} for each in wanted], allow_auto_topic_creation=False
    )
    led = [partition["leader_id"] >= 0 for topic in found["topics"] for partition in topic["partitions"]]
    for kind in (0, 1):
        link.call("FindCoordinator", 1, key="ready?", key_type=kind)
    (group,) = link.call("DescribeGroups", 4, groups=["ready?"])["groups"]
    producer = link.call("InitProducerId", 1, transactional_id="ready?", transaction_timeout_ms=60_000)
    return len(led) == 8 and all(led) and not group["error_code"] and not producer["error_code"]

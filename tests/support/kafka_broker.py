"""A real Apache Kafka broker for tests: a story's claims about Kafka are verified against Kafka.

One KRaft node on loopback, with its jars from Maven. Where Java or Maven is missing the test skips with a reason.

The settings differ from Kafka's defaults where a single test node requires it and where waiting would only cost time;
they are those that config/test.yaml gives our own server.
"""

import base64
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.support.java_support import KAFKA_VERSION, archive_to_make, java, kafka_classpath, run_java
from tests.support.ports import HeldPort
from tests.support.waiting import wait_until

TEST_MARKERS = ("kafka",)

KAFKA_TOOLS = "4.3.0"  # the newest whose tools are published; they read the format of 4.4
STARTED_WITHIN_S = 120.0
STOPPED_WITHIN_S = 90.0
BROKER_LOG = """status=error
rootLogger.level=info
rootLogger.appenderRef.out.ref=OUT
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
logger.server.name=kafka.server
logger.server.level=info
"""


LOGGING = ("org.apache.logging.log4j:log4j-core:2.24.3", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
# The broker of 4.4.0 requires tools-api of its own version, which is not published.
TOOLS_API = "org.apache.kafka:kafka-tools-api"
BROKER = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"{TOOLS_API}:{KAFKA_TOOLS}", *LOGGING)
TOOLS = (f"org.apache.kafka:kafka-tools:{KAFKA_TOOLS}", *LOGGING)


FOR_ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}
METADATA_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
"""The features of a new cluster."""
_formatted: list[bytes] = []
"""This file, once Kafka's tool has written it."""
_formatting = threading.Lock()


def new_cluster_id() -> str:
    # a leading dash would be parsed as an option
    return "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


class Detour(NamedTuple):
    """A listener of a broker for clients that reach it in their own way, such as through a proxy."""

    name: str
    listens_at: HeldPort
    advertised: str
    """The address that brokers name to these clients."""


class Member(NamedTuple):
    """What a broker must know to be one of several."""

    node_id: int
    """From 1 on."""
    cluster_id: str
    controllers: Sequence[HeldPort]
    heap_mib: int = 512
    ways: Sequence[Detour] = ()

    @property
    def voters(self) -> str:
        return ",".join(f"{number}@{held.address}" for number, held in enumerate(self.controllers, 1))


class KafkaBroker:
    """One broker and its folder. Its ports are chosen once, so that clients see a new start as a restart.

    `protocol`: the security protocol of its listener, which needs settings of its own if it is not PLAINTEXT.
    `member`: what it has of a cluster; without it is one of its own.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        protocol: str = "PLAINTEXT",
        member: Member | None = None,
    ):
        self.folder = folder
        self.classpath = kafka_classpath(BROKER, exclude=(TOOLS_API,))
        self._member = member or Member(1, new_cluster_id(), [HeldPort()])
        self._held = [HeldPort(), self._member.controllers[self._member.node_id - 1]]
        self.bootstrap, controller = (held.address for held in self._held)
        ways = self._member.ways
        self.data_dir = folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        values = {
            "process.roles": "broker,controller",
            "node.id": str(self._member.node_id),
            "controller.quorum.voters": self._member.voters,
            "listeners": ",".join(
                [
                    f"{protocol}://{self.bootstrap}",
                    f"CONTROLLER://{controller}",
                    *(f"{way.name}://{way.listens_at.address}" for way in ways),
                ]
            ),
            "advertised.listeners": ",".join(
                [f"{protocol}://{self.bootstrap}", *(f"{way.name}://{way.advertised}" for way in ways)]
            ),
            "inter.broker.listener.name": protocol,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", f"{protocol}:{protocol}", *(f"{way.name}:PLAINTEXT" for way in ways)]
            ),
            "log.dirs": str(self.data_dir),
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
        values |= FOR_ONE_NODE | dict(settings or {})
        if member is None:
            # A killed broker is not registered again until the session of its former process is over.
            values = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"} | values
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "server.properties"
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        self.log_config = folder / "log4j2.properties"
        self.log_config.write_text(BROKER_LOG)
        self.log_path = folder / "broker.log"

    def java(self, main: str, *arguments: str, archive: Path | None = None) -> list[str]:
        options = [f"-Dlog4j2.configurationFile={self.log_config}"]
        heap_mib = self._member.heap_mib
        return java(self.classpath, main, *arguments, heap_mib=heap_mib, options=options, archive=archive)

    def start(self) -> Self:
        """Starts the broker; returns when it serves. The first start formats its folder."""
        with archive_to_make(self.classpath) as archive:
            if archive is not None:
                self._start(archive)
                self._end()
                shutil.rmtree(self.data_dir)
        return self._start()

    def _start(self, archive: Path | None = None) -> Self:
        if not self.data_dir.exists():
            self._format()
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                self.java("kafka.Kafka", str(self.config), archive=archive), stdout=log, stderr=log
            )
        wait_until(self._started, lambda: f"Kafka to start:\n{self.log[-3000:]}", STARTED_WITHIN_S)
        return self

    def _format(self) -> None:
        """Formats the folder. Kafka's tool takes seconds, and writes the same for every broker but for its ids."""
        metadata = self.data_dir / METADATA_SNAPSHOT
        with _formatting:
            if not _formatted:
                formatting = ["format", "-t", self._member.cluster_id, "-c", str(self.config)]
                command = self.java("kafka.tools.StorageTool", *formatting)
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"Kafka could not format its folder:\n{done.stdout}{done.stderr}"
                _formatted.append(metadata.read_bytes())
                return
        metadata.parent.mkdir(parents=True)
        metadata.write_bytes(_formatted[0])
        ids = f"node.id={self._member.node_id}\ndirectory.id={new_cluster_id()}\ncluster.id={self._member.cluster_id}\n"
        (self.data_dir / "meta.properties").write_text(f"version=1\n{ids}")

    def _started(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"Kafka ended:\n{self.log[-3000:]}"
        return "Kafka Server started" in self.log

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def pause(self) -> None:
        """Stops the process, as if its machine hung."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOPPED_WITHIN_S)

    def stop(self) -> None:
        """Stops the broker, by SIGKILL if an orderly shutdown takes too long."""
        for held in self._held:
            held.release()
        self._end()

    def _end(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()


def dump_segments(*files: Path, options: tuple[str, ...] = ("--print-data-log",)) -> str:
    """The output of Kafka's DumpLogSegments for files of a partition's folder."""
    named = ("--files", ",".join(map(str, files)))
    done = run_java(kafka_classpath(TOOLS), "org.apache.kafka.tools.DumpLogSegments", *options, *named)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

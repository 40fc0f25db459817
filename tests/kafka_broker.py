"""A real Apache Kafka broker for tests: what a story claims about Kafka is checked against Kafka.

One KRaft node on loopback. Its jars come through Maven once and are kept in the user's cache folder; nothing is
downloaded where Java or Maven is missing: the caller gets `Missing` with the reason, and skips.

The settings differ from Kafka's defaults where one test node needs it and where waiting would only cost time; they are
the ones that config/test.yaml gives our own server.
"""

import base64
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Self

KAFKA = "4.4.0"
KAFKA_TOOLS = "4.3.0"  # the newest whose tools are published; they read what 4.4 writes
STARTED_WITHIN_S = 120.0
STOPPED_WITHIN_S = 30.0
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
QUIET_LOG = """status=error
rootLogger.level=warn
rootLogger.appenderRef.out.ref=OUT
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
logger.server.name=kafka.server
logger.server.level=info
"""


class Missing(Exception):
    """Java or Maven is not here, or Maven could not get the jars; the text says which."""


def dependency(artifact: str, version: str, group: str = "org.apache.kafka", without: str = "") -> str:
    excluded = f"<exclusion><groupId>{group}</groupId><artifactId>{without}</artifactId></exclusion>"
    exclusions = f"<exclusions>{excluded}</exclusions>" if without else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{exclusions}</dependency>"
    )


LOGGING = "".join(
    dependency(artifact, "2.24.3", "org.apache.logging.log4j") for artifact in ("log4j-core", "log4j-slf4j-impl")
)
# The broker of 4.4.0 asks for tools-api of its own version, which is not published.
BROKER = (
    dependency("kafka_2.13", KAFKA, without="kafka-tools-api") + dependency("kafka-tools-api", KAFKA_TOOLS) + LOGGING
)
TOOLS = dependency("kafka-tools", KAFKA_TOOLS) + LOGGING
CLIENTS = dependency("kafka-clients", KAFKA) + LOGGING


def need_java() -> None:
    """Raises Missing unless Java 17 or newer and Maven are on the path."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        raise Missing(f"Java 17 or newer is needed, this is {said.splitlines()[:1]}")


@cache
def jars(name: str, dependencies: str) -> Path:
    """The folder with these artifacts and all they need, for a class path of `folder/*`."""
    need_java()
    cache_root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-group-coordinator"
    digest = uuid.uuid5(uuid.NAMESPACE_OID, dependencies).hex[:10]
    folder = cache_root / f"{name}-{digest}"
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM.format(dependencies))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), *goal], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Missing(f"Maven could not get the jars of {name}: {(done.stdout + done.stderr)[-400:]}")
    (folder / "complete").touch()
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class KafkaBroker:
    """One broker and its folder. Its ports are chosen once, so `restart` is a restart for its clients too."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None):
        self.folder = folder
        self.jars = jars("broker", BROKER)
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.data_dir = folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        controller = free_port()
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "100",
        } | dict(settings or {})
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "server.properties"
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        self.log_config = folder / "log4j2.properties"
        self.log_config.write_text(QUIET_LOG)
        self.log_path = folder / "broker.log"

    def java(self, main: str, *arguments: str) -> list[str]:
        options = [
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={self.log_config}",
        ]
        return ["java", *options, "-cp", f"{self.jars}/*", main, *arguments]

    def start(self) -> Self:
        """Starts the broker; returns when it serves. The first start formats its folder."""
        if not self.data_dir.exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            formatting = ["format", "-t", cluster, "-c", str(self.config)]
            subprocess.run(self.java("kafka.tools.StorageTool", *formatting), check=True, capture_output=True)
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(self.java("kafka.Kafka", str(self.config)), stdout=log, stderr=log)
        deadline = time.monotonic() + STARTED_WITHIN_S
        while "Kafka Server started" not in self.log:
            assert self.process.poll() is None, f"Kafka ended:\n{self.log[-3000:]}"
            assert time.monotonic() < deadline, f"Kafka did not start:\n{self.log[-3000:]}"
            time.sleep(0.05)
        return self

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOPPED_WITHIN_S)

    def stop(self) -> None:
        """An orderly end; SIGKILL when it takes too long."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

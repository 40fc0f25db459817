"""Members of a group as processes of their own, for any client library: commands to them and events from them.

A real client runs in its own process, so that SIGKILL is realistic. The test sends commands and waits for events;
nothing here sleeps for a time that is hoped to be long enough.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.compatibility.foreign_programs import go_program, node_program
from tests.support.java_support import KAFKA_VERSION, archive_to_make, compile_java, java, kafka_classpath
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection

HERE = Path(__file__).parent
JAVA_ARTIFACTS = (
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "com.fasterxml.jackson.core:jackson-databind:2.21.7",
    "org.slf4j:slf4j-nop:1.7.36",
)
Partition = tuple[str, int]


class ClientError(Exception):
    """The client library answered a command with an error."""


class Client:
    """One kind of client: how to start its program, and what it supports."""

    def __init__(
        self,
        name: str,
        *,
        cooperative: bool,
        admin: frozenset[str],
        static: bool = True,
        patient: bool = True,
        has_sticky_generation: bool = False,
    ):
        self.name = name
        self.cooperative = cooperative
        self.admin = admin
        self.static = static
        self.has_sticky_generation = has_sticky_generation
        """Whether the user data of its cooperative-sticky have a generation."""
        self.patient = patient
        """Whether it stays a member, whatever it was doing, while there is no broker for a second. kafkajs restarts its
        consumer if it looks for brokers to fetch from at that moment (KafkaJSNoBrokerAvailableError).
        """

    def prepare(self, bootstrap: str) -> None:
        """Does what makes later starts quicker, with a server that has no security."""

    def command(self, bootstrap: str) -> list[str]:
        return [sys.executable, str(HERE / "clients" / f"{self.name}_client.py"), bootstrap]


class JavaClient(Client):
    """The Java client."""

    @cached_property
    def classpath(self) -> str:
        return compile_java(HERE / "java" / "ClientProgram.java", kafka_classpath(JAVA_ARTIFACTS))

    def prepare(self, bootstrap: str) -> None:
        with archive_to_make(self.classpath) as archive:
            if archive is not None:
                self._use_everything(bootstrap, archive)

    def command(self, bootstrap: str) -> list[str]:
        return java(self.classpath, "ClientProgram", bootstrap, heap_mib=128)

    def _use_everything(self, bootstrap: str, archive: Path) -> None:
        """A run that loads the classes that tests need, and ends with its input."""
        topic = {"topic": f"classes-{archive.stem}", "partition": 0}
        member = {"topics": [topic["topic"]], "client_id": "c", "assignors": "range,cooperative-sticky"}
        member |= {"session_timeout_ms": 10_000, "heartbeat_ms": 300}
        commands = [
            {"do": "create_topic", "count": 1, **topic},
            {"do": "produce", "values": ["v"], "idempotent": True, "codec": "gzip", **topic},
            {"do": "read_since", "time_ms": 0, "count": 1, **topic},
            *(
                command
                for protocol in ("classic", "consumer")
                for command in (
                    {"do": "join", "group": f"{archive.stem}-{protocol}", "protocol": protocol, **member},
                    {"do": "committed", "partitions": [[topic["topic"], 0]]},
                    {"do": "leave"},
                )
            ),
        ]
        lines = "".join(json.dumps({"id": number, **command}) + "\n" for number, command in enumerate(commands))
        with subprocess.Popen(
            java(self.classpath, "ClientProgram", bootstrap, heap_mib=128, archive=archive),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(lines)
            process.stdin.flush()
            for line in process.stdout:
                if json.loads(line).get("id") == len(commands) - 1:
                    process.stdin.close()


class GoClient(Client):
    """franz-go."""

    def command(self, bootstrap: str) -> list[str]:
        return [*go_program(HERE / "go"), bootstrap]


class NodeClient(Client):
    """kafkajs."""

    def command(self, bootstrap: str) -> list[str]:
        return [*node_program(HERE / "node"), bootstrap]


TEST_MARKERS = ("foreign",)
"""Which client runs is often a parameter, so every test with clients counts as one that may start Go or Node."""
EVERYTHING = frozenset({"alter_offsets", "delete_group"})
CLIENTS = {
    "confluent": Client("confluent", cooperative=True, admin=EVERYTHING, has_sticky_generation=True),
    "kafka_python": Client("kafka_python", cooperative=True, admin=EVERYTHING),
    "aiokafka": Client("aiokafka", cooperative=False, admin=frozenset()),
    "java": JavaClient("java", cooperative=True, admin=EVERYTHING, has_sticky_generation=True),
    "franz_go": GoClient("franz_go", cooperative=True, admin=EVERYTHING, has_sticky_generation=True),
    "kafkajs": NodeClient("kafkajs", cooperative=False, admin=EVERYTHING, static=False, patient=False),
}


class Program:
    """A running client program. `events` holds everything it has reported; `owned` is derived from them."""

    def __init__(self, client: Client, bootstrap: str, folder: Path, security: dict[str, str] | None = None):
        """`security`: see clients/commands.py."""
        self.client = client
        self.name = ""
        self.group = ""
        self.events: list[dict[str, Any]] = []
        self.records: list[tuple[str, int, int, str]] = []
        self.owned: set[Partition] = set()
        self._results: dict[int, dict[str, Any]] = {}
        self._sent = 0
        self._changed = threading.Condition()
        self._log = (folder / f"{client.name}-{id(self)}.log").open("wb")
        if not security:
            client.prepare(bootstrap)
        self._process = subprocess.Popen(
            client.command(bootstrap),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {"SECURITY": json.dumps(security or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_until(lambda: bool(self.events), "the program to start")

    def join(self, group: str, topics: list[str], *, name: str, **how: Any) -> None:
        """Joins the group and polls from then on. See the programs for `how`."""
        self.wait_for_result(self.begin_to_join(group, topics, name=name, **how))

    def begin_to_join(self, group: str, topics: list[str], *, name: str, **how: Any) -> int:
        """Sends the join without waiting: some libraries report it only when it has succeeded."""
        defaults = {"assignors": "range", "session_timeout_ms": 10_000, "heartbeat_ms": 300}
        self.name, self.group = name, group
        return self.send("join", group=group, topics=topics, client_id=name, **(defaults | how))

    def call(self, do: str, **arguments: Any) -> Any:
        """Sends a command and waits for its result."""
        return self.wait_for_result(self.send(do, **arguments))

    def send(self, do: str, **arguments: Any) -> int:
        self._sent += 1
        number = self._sent
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        return number

    def wait_for_result(self, number: int) -> Any:
        self.wait_until(lambda: number in self._results, f"the result of command {number}")
        result = self._results.pop(number)
        if "error" in result:
            raise ClientError(result["error"])
        return result["result"]

    def partitions_of_events(self, *kinds: str) -> list[list[Partition]]:
        """The partitions of each event of these kinds, in order."""
        return [partitions_of(event) for event in list(self.events) if event["event"] in kinds]

    def rebalances(self) -> int:
        """The number of assignments and revocations so far: unchanged means undisturbed."""
        return len(self.partitions_of_events("assigned", "revoked", "lost"))

    def values(self) -> list[str]:
        return [record[3] for record in list(self.records)]

    def wait_until(self, condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        deadline = time.monotonic() + within_s
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                assert left > 0, f"{self.client.name} {self.name} waited in vain for {what}: {self}"
                assert self.alive, f"{self.client.name} {self.name} ended while the test waited for {what}"
                self._changed.wait(min(left, 0.2))

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def __str__(self) -> str:
        history = [(event["event"], [partition for _, partition in partitions_of(event)]) for event in self.events[1:]]
        owned = sorted(partition for _, partition in self.owned)
        state = self.name if self.alive else f"{self.name} (ended: {self._last_words()})"
        return f"{state} owns {owned}, read {len(self.records)} records, events {history}"

    def _last_words(self) -> str:
        """The end of what the program wrote to its stderr."""
        return Path(self._log.name).read_text(errors="replace")[-2_000:]

    def signal(self, number: int) -> None:
        """Sends a signal, such as SIGSTOP: the process keeps its connections and says nothing."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: the member does not leave its group."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """For clean-up: the program ends without leaving its group."""
        if self._process.poll() is None:
            self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait(60)
        self._reader.join(60)
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            with self._changed:
                self._note(message)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _note(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._results[message["id"]] = message
            return
        if message["event"] == "records":
            self.records += [tuple(record) for record in message["records"]]
        elif message["event"] == "assigned":
            self.owned |= set(partitions_of(message))
        elif message["event"] in ("revoked", "lost"):
            self.owned -= set(partitions_of(message))
        if message["event"] != "records":
            self.events.append(message)


def partitions_of(event: dict[str, Any]) -> list[Partition]:
    return [(topic, partition) for topic, partition in event["partitions"]]


def wait_for_all(members: list[Program], condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Waits for a condition that several members bring about together."""

    def found() -> bool:
        assert all(member.alive for member in members), state()
        return condition()

    def state() -> str:
        return f"{what}:\n" + "\n".join(map(str, members))

    wait_until(found, state, within_s)


def shared(members: list[Program], partitions: set[Partition]) -> bool:
    """Whether every partition has exactly one owner among the members, and every member has some."""
    owned = [partition for member in members for partition in member.owned]
    return sorted(owned) == sorted(partitions) and all(member.owned for member in members)


TOPOLOGY = {
    "epoch": 1,
    "subtopologies": [
        {"subtopology_id": "0", "source_topics": ["t"], "repartition_sink_topics": ["app-repartition"]},
        {
            "subtopology_id": "1",
            "repartition_source_topics": [{"name": "app-repartition", "topic_configs": []}],
            "state_changelog_topics": [
                {"name": "app-changelog", "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}
            ],
        },
    ],
}


NO_TASKS: dict[str, list[Any]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


ALL_TASKS = NO_TASKS | {"active_tasks": [{"subtopology_id": each, "partitions": [0, 1, 2]} for each in ("0", "1")]}


def join_application(link: Connection) -> int:
    """Creates a streams group of one member that has all tasks; returns its epoch."""
    settings = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
    link.call(
        "IncrementalAlterConfigs", 1,
        resources=[{"resource_type": 32, "resource_name": "app", "configs": configs}],
    )  # fmt: skip
    about = {"group_id": "app", "member_id": "m"}
    joining = {"rebalance_timeout_ms": 60_000, "process_id": "p", "topology": TOPOLOGY, **NO_TASKS}
    answers: list[Any] = []

    def has_all() -> bool:
        # The request is repeated until the internal topics exist.
        answer = link.call("StreamsGroupHeartbeat", 1, **about, member_epoch=0, **joining)
        answers.append(answer)
        return answer["active_tasks"] == ALL_TASKS["active_tasks"] and not answer["status"]

    wait_until(has_all, "all tasks")
    epoch: int = answers[-1]["member_epoch"]
    assert link.call("StreamsGroupHeartbeat", 1, **about, member_epoch=epoch, **ALL_TASKS)["error_code"] == 0
    return epoch

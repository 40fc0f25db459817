"""The commands of the certified programs. Those in Java, Go and JavaScript are built once, in the user's cache folder."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.compatibility.foreign_programs import go_program, node_program
from tests.compatibility.members import JAVA_ARTIFACTS
from tests.support.java_support import compile_java, java, kafka_classpath

HERE = Path(__file__).parent
STREAMS_ARTIFACTS = ("org.apache.kafka:kafka-streams:4.3.1", "org.slf4j:slf4j-nop:1.7.36")
Command = list[str]


@dataclass(frozen=True)
class Certified:
    """A program: its library, how to build its command, the protocols of groups that it can join."""

    library: str
    command: Callable[[], Command]
    protocols: tuple[str, ...] = ("classic",)
    transactional: bool = False


def _python(name: str) -> Callable[[], Command]:
    return lambda: [sys.executable, str(HERE / f"{name}.py")]


def _java(name: str, artifacts: tuple[str, ...] = JAVA_ARTIFACTS) -> Callable[[], Command]:
    def command() -> Command:
        return java(compile_java(HERE / "java" / f"{name}.java", kafka_classpath(artifacts)), name, heap_mib=128)

    return command


def _go() -> Command:
    return go_program(HERE / "go")


def _node() -> Command:
    return node_program(HERE / "node")


def command_of(program: str) -> Command:
    """The command of `python SCRIPT [ARGUMENT]`, `go [PROGRAM]` or `node PROGRAM`."""
    language, *arguments = program.split()
    match language:
        case "go":
            return [*_go(), *arguments]
        case "node":
            return [*node_program(HERE / "node", "wrong.js"), *arguments]
    return [sys.executable, str(HERE / f"{arguments[0]}.py"), *arguments[1:]]


BOTH = ("classic", "consumer")
CONSUMERS = {
    "confluent": Certified("confluent-kafka", _python("confluent_consumer"), BOTH),
    "kafka_python": Certified("kafka-python", _python("kafka_python_consumer")),
    "aiokafka": Certified("aiokafka", _python("aiokafka_consumer")),
    "java": Certified("kafka-clients", _java("ObviousConsumer"), BOTH),
    "franz_go": Certified("franz-go", _go, BOTH),
    "kafkajs": Certified("kafkajs", _node),
    "streams": Certified("kafka-streams", _java("ObviousStreams", STREAMS_ARTIFACTS), ("classic", "streams")),
}
SHARE = {
    "confluent_share": Certified("confluent-kafka", _python("share_consumer"), ("share",)),
    "franz_go_share": Certified("franz-go", _go, ("share",)),
}
TRANSACTIONS = {
    "confluent_transactions": Certified("confluent-kafka", _python("confluent_transactions"), BOTH, True),
    "kafka_python_transactions": Certified("kafka-python", _python("kafka_python_transactions"), ("classic",), True),
    "aiokafka_transactions": Certified("aiokafka", _python("aiokafka_transactions"), ("classic",), True),
    "java_transactions": Certified("kafka-clients", _java("ObviousTransactions"), BOTH, True),
    "franz_go_transactions": Certified("franz-go", _go, BOTH, True),
    "kafkajs_transactions": Certified("kafkajs", _node, ("classic",), True),
}
WRONG = {
    "wrong_commits_first": Certified("confluent-kafka", _python("wrong_commits_first"), BOTH),
    "wrong_ignores_revocation": Certified("confluent-kafka", _python("wrong_ignores_revocation"), BOTH),
    "wrong_zombie": Certified("kafka-python", _python("wrong_zombie")),
}
PROGRAMS = CONSUMERS | SHARE | TRANSACTIONS | WRONG

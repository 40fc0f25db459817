"""Servers with an authorizer and a listener for PLAIN users: Kafka and ours."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.access.asked import PASSWORD
from tests.access.furnish import ROOT, SETTINGS
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ROOT}",
    "sasl.enabled.mechanisms": "PLAIN",
}


def kafka(folder: Path, users: Iterable[str], settings: Mapping[str, str] | None = None) -> KafkaBroker:
    """The requests between its controller and its broker have no user. Retention, which begins late, removes no old records."""
    passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    plain = f'{MODULE} required username="{ROOT}" password="{PASSWORD}" {passwords};'
    own = {
        "super.users": f"User:{ROOT};User:ANONYMOUS",
        "log.initial.task.delay.ms": "1800000",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
    }
    return KafkaBroker(folder, SETTINGS | AUTHORIZER | own | dict(settings or {}), "SASL_PLAINTEXT")


def ours(folder: Path, users: Iterable[str], settings: Mapping[str, str] | None = None) -> ServerProcess:
    path = folder / "users"
    path.write_text("".join(f"{user}:{PASSWORD}\n" for user in users))
    own = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.users.file": str(path)}
    return ServerProcess(folder, settings=SETTINGS | AUTHORIZER | own | dict(settings or {}))

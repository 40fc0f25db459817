"""Servers for the dialogs of sasl_dialogs.py, Kafka and ours: the same users, mechanisms and times."""

import hashlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.security.sasl_dialogs import SESSION_MS, Dialog
from tests.support.kafka_broker import Detour, KafkaBroker, Member, new_cluster_id
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "connections.max.reauth.ms": str(SESSION_MS),
    "connection.failed.authentication.delay.ms": "10",
}
MODULES = "org.apache.kafka.common.security"
LISTENER = "listener.name.sasl_plaintext"


def kafka(folder: Path, settings: Mapping[str, str] | None = None, plain: HeldPort | None = None) -> KafkaBroker:
    """`plain`: the port of a listener without SASL, which it has too."""
    users = 'username="alice" password="right" user_alice="right" user_bob="right"'
    jaas = {
        "plain": f"{MODULES}.plain.PlainLoginModule required {users};",
        "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
    }
    modules = {f"{LISTENER}.{mechanism}.sasl.jaas.config": module for mechanism, module in jaas.items()}
    own = SETTINGS | modules | {"sasl.mechanism.inter.broker.protocol": "PLAIN"} | dict(settings or {})
    if plain is None:
        return KafkaBroker(folder, own, "SASL_PLAINTEXT")
    ways = [Detour("PLAINTEXT", plain, plain.address)]
    return KafkaBroker(folder, own, "SASL_PLAINTEXT", Member(1, new_cluster_id(), [HeldPort()], ways=ways))


def ours(
    folder: Path, settings: Mapping[str, str] | None = None, listeners: str = "SASL_PLAINTEXT://127.0.0.1:0"
) -> ServerProcess:
    (folder / "users").write_text("alice:right\nbob:right\n")
    own = {
        "listeners": listeners,
        f"{LISTENER}.plain.sasl.users.file": str(folder / "users"),
        "sasl.oauthbearer.unsecured.tokens": "true",
    }
    return ServerProcess(folder, settings=SETTINGS | own | dict(settings or {}))


def add_carol(address: str) -> None:
    """Gives carol her credentials, and waits until they work."""
    for code, digest in ((1, "sha256"), (2, "sha512")):
        salted = hashlib.pbkdf2_hmac(digest, b"right", b"salt", 4_096)
        wanted = {"name": "carol", "mechanism": code, "iterations": 4_096, "salt": b"salt", "salted_password": salted}
        it = Dialog(address)
        with closing(it.link):
            it.plain()
            (answer,) = it.link.call("AlterUserScramCredentials", 0, upsertions=[wanted])["results"]
            assert answer["error_code"] == 0, answer

    def works() -> bool:
        it = Dialog(address)
        with closing(it.link):
            it.scram("SCRAM-SHA-512", "carol", "right")
            return it.heard[-1]["error_code"] == 0

    wait_until(works, "the credentials")

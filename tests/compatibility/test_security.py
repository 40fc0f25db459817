"""TLS and SASL with six client libraries: whoever has the right credentials produces and consumes, and nobody else."""

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from coordinator.client.login.sasl import Sasl
from coordinator.client.login.tls import Security, Tls
from coordinator.operations.client import Client
from coordinator.protocol.messages import DescribeUserScramCredentialsRequest
from tests.compatibility.members import CLIENTS, Program
from tests.support.java_support import kafka_classpath, run_java
from tests.support.kafka_broker import KAFKA_TOOLS, TOOLS
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.tls import Pem, certificates
from tests.support.waiting import wait_until

CONFIGS = "kafka.admin.ConfigCommand"
PASSWORD = "right"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LIKE_SHA_512 = "SCRAM-SHA-256"
"""To a client it is the same with another hash, and tests/security/test_acts_as_kafka.py has both."""
LIBRARIES = [pytest.param(name, marks=pytest.mark.java if name == "java" else ()) for name in CLIENTS]


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Pem:
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def mutual() -> Iterator[HeldPort]:
    """The port of the listener that asks for certificates."""
    port = HeldPort()
    yield port
    port.release()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, pem: Pem, mutual: HeldPort) -> Iterator[ServerProcess]:
    """A server with SASL over TLS, and with TLS that asks for certificates."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "users").write_text(f"alice:{PASSWORD}\n")
    (folder / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    server = ServerProcess(
        folder,
        settings={
            "listeners": f"SASL_SSL://127.0.0.1:0,MUTUAL://{mutual.address}",
            "listener.security.protocol.map": "MUTUAL:SSL",
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.users.file": str(folder / "users"),
            "sasl.oauthbearer.unsecured.tokens": "true",
            "sasl.oauthbearer.required.scope": "kafka",
            "ssl.keystore.location": str(folder / "both.pem"),
            "ssl.truststore.location": str(pem.ca),
            # franz-go creates none.
            "topics": [{"name": f"{library}-{way}"} for library in CLIENTS for way in (*MECHANISMS, "certificate")],
        },
    )
    server.start()
    yield server
    server.stop()


def unsecured_token(scope: str) -> str:
    """A token that nobody has signed, valid for an hour."""
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": "alice", "scope": scope, "iat": now_s - 60, "exp": now_s + 3600})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def credentials(mechanism: str, *, right: bool) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        scope = "kafka" if right else "other"
        return {"mechanism": mechanism, "token": unsecured_token(scope), "scope": scope}
    return {"mechanism": mechanism, "user": "alice", "password": PASSWORD if right else "wrong"}


def total(server: ServerProcess, metric: str) -> float:
    """The sum of the samples whose name and labels match."""
    with urlopen(f"{server.admin}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(number) for number in re.findall(rf"^{metric} (\S+)$", text, re.MULTILINE))


AUTHENTICATIONS_FAILED = r"coordinator_authentications_failed_total\S*"
HANDSHAKES_FAILED = r'coordinator_connections_closed_total{reason="TLS handshake failed"}'


def round_trip(program: Program, name: str) -> None:
    """Produces a record, and consumes it in a group."""
    program.call("produce", topic=name, partition=0, values=["v"], idempotent=False)
    program.join(name, [name], name=name)
    program.wait_until(lambda: program.values() == ["v"], "the record")


@pytest.mark.parametrize(
    "mechanism",
    [pytest.param(each, marks=pytest.mark.thorough) if each == LIKE_SHA_512 else each for each in MECHANISMS],
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_with_the_right_credentials_works_and_one_without_does_not(
    library: str, mechanism: str, secured: ServerProcess, pem: Pem, program_folder: Path
) -> None:
    common = {"protocol": "SASL_SSL", "ca": str(pem.ca)}
    with ExitStack() as stack:

        def start(*, right: bool) -> Program:
            security = common | credentials(mechanism, right=right)
            program = Program(CLIENTS[library], secured.bootstrap, program_folder, security)
            stack.callback(program.stop)
            return program

        name = f"{library}-{mechanism}"
        round_trip(start(right=True), name)
        before = total(secured, AUTHENTICATIONS_FAILED)
        stranger = start(right=False)
        stranger.send("produce", topic=name, partition=0, values=["forbidden"], idempotent=False)
        wait_until(lambda: total(secured, AUTHENTICATIONS_FAILED) > before, "the refusal")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_with_a_certificate_works_and_one_without_does_not(
    library: str, secured: ServerProcess, mutual: HeldPort, pem: Pem, program_folder: Path
) -> None:
    identity = secured.folder / "both.pem"
    files = {"certificate": str(pem.certificate), "key": str(pem.key), "identity": str(identity)}
    common = {"protocol": "SSL", "ca": str(pem.ca)}
    with ExitStack() as stack:
        program = Program(CLIENTS[library], mutual.address, program_folder, common | files)
        stack.callback(program.stop)
        round_trip(program, f"{library}-certificate")
        before = total(secured, HANDSHAKES_FAILED)
        stranger = Program(CLIENTS[library], mutual.address, program_folder, common)
        stack.callback(stranger.stop)
        stranger.send("produce", topic="t", partition=0, values=["forbidden"], idempotent=False)
        wait_until(lambda: total(secured, HANDSHAKES_FAILED) > before, "the refusal")


@pytest.mark.java
def test_kafka_configs_sets_and_deletes_scram_credentials(secured: ServerProcess, pem: Pem, tmp_path: Path) -> None:
    """Its `--describe` asks for quotas too, which this server does not have."""
    classpath = kafka_classpath((*TOOLS, f"org.apache.kafka:kafka_2.13:{KAFKA_TOOLS}"))
    command_config = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    command_config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={pem.ca}\n"
        f'sasl.jaas.config={module} required username="alice" password="{PASSWORD}";\n'
    )

    def alter(*arguments: str) -> None:
        where = ("--bootstrap-server", secured.bootstrap, "--command-config", str(command_config))
        done = run_java(classpath, CONFIGS, *where, "--entity-type", "users", "--alter", *arguments)
        assert done.returncode == 0, done.stderr

    def credentials_of_carol() -> list[tuple[int, int]]:
        sasl = Sasl(mechanism="PLAIN", user="alice", password=PASSWORD)
        with Client(secured.bootstrap, 10, Security(tls=Tls(ca=pem.ca), sasl=sasl)) as client:
            results = client.any().ask(DescribeUserScramCredentialsRequest(users=None)).results
        return [(info.mechanism, info.iterations) for each in results for info in each.credential_infos]

    alter("--entity-name", "carol", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=c]")
    assert credentials_of_carol() == [(1, 8192)]
    alter("--entity-name", "carol", "--delete-config", "SCRAM-SHA-256")
    assert credentials_of_carol() == []

"""TLS and SASL of the commands: SCRAM by its RFC, TLS in front of this server, and both with a real Kafka."""

import socket
import ssl
import threading
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from coordinator import cli
from coordinator.client.login.scram import Scram, ScramFailed
from tests.scenarios.conftest import wait_until_serving
from tests.support.kafka_broker import KafkaBroker
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.tls import Pem, certificates
from tests.support.waiting import wait_until


def test_scram_sends_and_accepts_the_messages_of_rfc_7677():
    scram = Scram("sha256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    challenge = f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert scram.final(challenge) == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(ScramFailed):
        scram.verify(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    "challenge", [b"", b"r=other,s=AAAA,i=4096", b"r=nonce1,s=AAAA,i=1", b"r=nonce1,s=AAAA,i=99999999", b"r=nonce1,i=x"]
)
def test_scram_refuses_a_challenge_that_is_none_or_too_cheap_or_too_dear(challenge):
    with pytest.raises(ScramFailed):
        Scram("sha512", "user", "pencil", nonce="nonce").final(challenge)


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("pem"))


class TlsProxy:
    """Speaks TLS with clients, which need a certificate, and passes their bytes on to a plain port."""

    def __init__(self, pem: Pem, listener: socket.socket, port: int) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem.ca))
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_cert_chain(pem.certificate, pem.key)
        self._listener, self._port = listener, port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # the test has closed the listener
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            suppress(OSError),
            self._context.wrap_socket(client, server_side=True) as secure,
            socket.create_connection(("127.0.0.1", self._port)) as server,
        ):
            while asked := secure.recv(65536):  # a client of these commands waits for each response
                server.sendall(asked)
                size = server.recv(4, socket.MSG_WAITALL)
                secure.sendall(size + server.recv(int.from_bytes(size), socket.MSG_WAITALL))


@pytest.fixture
def tls_bootstrap(pem, tmp_path):
    """The address of this server behind TLS."""
    inner = HeldPort()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        outer = f"127.0.0.1:{listener.getsockname()[1]}"
        server = ServerProcess(tmp_path, arguments=("--listen", inner.address, "--advertise", outer))
        try:
            server.start()
            TlsProxy(pem, listener, inner.port)
            yield outer
        finally:
            server.stop()
            inner.release()


def tls(pem: Pem, *more: str) -> list[str]:
    return ["--tls-ca", str(pem.ca), "--tls-cert", str(pem.certificate), "--tls-key", str(pem.key), *more]


def test_commands_reach_a_server_through_tls_with_certificates_on_both_sides(tls_bootstrap, pem, capsys):
    assert cli.main(["topics", "list", "--bootstrap", tls_bootstrap, *tls(pem)]) == 0
    assert "orders" in capsys.readouterr().out
    assert cli.main(["groups", "list", "--bootstrap", tls_bootstrap, *tls(pem)]) == 0


def test_a_server_that_is_not_trusted_is_an_error_in_one_line(tls_bootstrap, capsys):
    assert cli.main(["topics", "list", "--bootstrap", tls_bootstrap, "--tls"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"coordinator: {tls_bootstrap}: the server's certificate is not trusted: ")
    assert error.count("\n") == 1


def test_tls_to_a_plain_port_is_an_error_in_one_line(coordinator_process, capsys):
    server = coordinator_process()
    assert cli.main(["topics", "list", "--bootstrap", server.bootstrap, "--tls", "--timeout", "5"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"coordinator: {server.bootstrap}: TLS: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ["--sasl", "PLAIN"],
        ["--user", "ann"],
        ["--sasl", "GSSAPI", "--user", "ann"],
        ["--tls-ca", "/no/such/file"],
        ["--sasl", "PLAIN", "--user", "ann"],
    ],
)
def test_security_options_that_are_wrong_or_incomplete_are_refused(wrong, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("SASL_PASSWORD", raising=False)
    assert cli.main(["topics", "list", *wrong]) == 2
    assert capsys.readouterr().err.startswith("coordinator: ")
    of_source = [word.replace("--", "--from-") for word in wrong]
    assert cli.main(["serve", "--from", "localhost:1", *of_source, "--data-dir", str(tmp_path / "data")]) == 2
    assert capsys.readouterr().err.startswith("coordinator: ")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def secure_kafka(pem, tmp_path_factory):
    """A Kafka with a listener of SASL over TLS, and its address. Who comes there may only do what an ACL allows."""
    folder = tmp_path_factory.mktemp("kafka")
    broker = KafkaBroker(folder)
    held = HeldPort()
    plain = folder / "kafka-server.pem"
    plain.write_text(pem.key.read_text() + pem.certificate.read_text())
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";'
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    changed = {
        "listeners": f"{{listeners}},SECURE://{held.address}",
        "advertised.listeners": f"{{advertised.listeners}},SECURE://{held.address}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.secure.plain.sasl.jaas.config": jaas,
        "listener.name.secure.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.secure.scram-sha-512.sasl.jaas.config": scram,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(plain),
    }
    values = dict(line.split("=", 1) for line in broker.config.read_text().splitlines())
    for key, value in changed.items():
        values[key] = value.replace(f"{{{key}}}", values.get(key, ""))
    broker.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    try:
        broker.start()
        yield broker, held.address
    finally:
        broker.stop()
        held.release()


@pytest.mark.java
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_real_kafka_accepts_the_user_by_every_mechanism_and_no_other(
    secure_kafka, pem, mechanism, capsys, monkeypatch, tmp_path
):
    broker, bootstrap = secure_kafka
    if mechanism != "PLAIN":
        scram = ScramMechanism[mechanism.replace("-", "_")]
        change = UserScramCredentialUpsertion("ann", ScramCredentialInfo(scram, 4096), b"secret")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.alter_user_scram_credentials([change])["ann"].result(30)
    password = tmp_path / "password"
    password.write_text("secret\n")
    access = ["--bootstrap", bootstrap, "--tls-ca", str(pem.ca), "--sasl", mechanism, "--user", "ann"]

    def accepted() -> bool:  # Kafka has the credentials a moment after its response
        return cli.main(["topics", "list", *access, "--password-file", str(password)]) == 0

    wait_until(accepted, "the user to be accepted")
    capsys.readouterr()
    monkeypatch.setenv("SASL_PASSWORD", "wrong")
    assert cli.main(["groups", "list", *access]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"coordinator: {bootstrap}: the server refuses user ann: ")
    assert error.count("\n") == 1


@pytest.mark.java
def test_a_fork_of_a_real_kafka_needs_these_permissions(secure_kafka, pem, capsys, monkeypatch, tmp_path):
    """It names the one that is missing, and leaves nothing behind. Configs of groups are the cluster's."""
    broker, bootstrap = secure_kafka
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
    wait_until_serving(broker.bootstrap)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 1, 5)], asynchronous=False)
    consumer.close()
    monkeypatch.setenv("SASL_PASSWORD", "secret")
    access = ("--from", bootstrap, "--from-tls-ca", str(pem.ca), "--from-sasl", "PLAIN", "--from-user", "ann")

    grants = (
        ("cannot look up __consumer_offsets of", AclOperation.DESCRIBE, "*"),
        ("cannot fetch __consumer_offsets-0 of", AclOperation.READ, "__consumer_offsets"),
        ("cannot describe the configs of topic orders", AclOperation.DESCRIBE_CONFIGS, "*"),
    )
    for reason, operation, topic in grants:
        assert cli.main(["serve", *access, "--data-dir", str(tmp_path / "data")]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"coordinator: {reason}")
        assert "TOPIC_AUTHORIZATION_FAILED" in error
        assert not list(tmp_path.glob("data*"))
        grant = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ann", "*", operation, AclPermissionType.ALLOW
        )
        admin.create_acls([grant])[grant].result(30)
    with ServerProcess(tmp_path, arguments=access) as forked:
        assert "1 classic groups and 1 offsets" in forked.log
        assert "left out, configs of groups: CLUSTER_AUTHORIZATION_FAILED" in forked.log


def test_a_server_without_sasl_is_an_error_in_one_line(coordinator_process, capsys, monkeypatch):
    monkeypatch.setenv("SASL_PASSWORD", "secret")
    server = coordinator_process()
    assert cli.main(["topics", "list", "--bootstrap", server.bootstrap, "--sasl", "PLAIN", "--user", "ann"]) == 1
    assert capsys.readouterr().err == f"coordinator: {server.bootstrap}: this listener of the server has no SASL\n"

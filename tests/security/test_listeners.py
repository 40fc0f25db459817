"""Listeners with TLS and SASL, as clients meet them: who may pass, what the others get, and that no secret gets out."""

import hashlib
import re
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, closing

import pytest

from coordinator.client.login.sasl import Sasl
from coordinator.client.login.tls import Security, Tls
from coordinator.operations.client import Client, OperationFailed
from coordinator.protocol.messages import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    MetadataRequest,
)
from tests.security.sasl_dialogs import Dialog
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates
from tests.support.waiting import wait_until
from tests.support.wire import Connection, ConnectionClosed

UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE = 33, 34
RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL = 91, 92, 93
NAMES = ("SASL_SSL", "SSL", "MUTUAL", "SHORT", "PLAINTEXT")
SECRETS = ("s3cret-alice", "s3cret-bob", "s3cret-key")
"""Planted in the configuration."""


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def server(tmp_path_factory, pem):
    folder = tmp_path_factory.mktemp("server")
    held = {name: HeldPort() for name in NAMES}
    at = {name: each.address for name, each in held.items()}
    users = folder / "users"
    users.write_text("alice:s3cret-alice\nbob:s3cret-bob\n")
    key = folder / "encrypted.pem"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", pem.key, "-out", key, "-passout", "pass:s3cret-key"], check=True
    )
    (folder / "both.pem").write_text(key.read_text() + pem.certificate.read_text())
    config = folder / "server.yaml"
    config.write_text(f"""
listeners:
  - SASL_PLAINTEXT://127.0.0.1:0
  - SASL_SSL://{at["SASL_SSL"]}
  - SSL://{at["SSL"]}
  - {{address: "{at["MUTUAL"]}", name: MUTUAL}}
  - SHORT://{at["SHORT"]}
  - {at["PLAINTEXT"]}
listener.security.protocol.map: MUTUAL:SSL,SHORT:SASL_PLAINTEXT
sasl.enabled.mechanisms: PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
sasl.users.file: {users}
sasl.oauthbearer.unsecured.tokens: true
connection.failed.authentication.delay.ms: 10
listener.name.short.plain.connections.max.reauth.ms: 1500
ssl.keystore.location: {folder}/both.pem
ssl.key.password: s3cret-key
ssl.truststore.location: {pem.ca}
listener.name.mutual.ssl.client.auth: required
listener.name.mutual.ssl.principal.mapping.rules: "RULE:^CN=([^,]*).*$/$1/"
admin.control.enable: true
offsets.topic.num.partitions: 1
transaction.state.log.num.partitions: 1
durability: write
""")
    process = ServerProcess(folder, config=config)
    process.start()
    process.addresses = {"SASL_PLAINTEXT": process.bootstrap, **at}
    yield process
    process.stop()
    for each in held.values():
        each.release()
    for secret in SECRETS:
        assert secret not in process.log


@pytest.fixture
def addresses(server):
    """The address of each listener, by name."""
    return server.addresses


@pytest.fixture
def connect():
    """Opens connections, which the end of the test closes."""
    with ExitStack() as opened:
        yield lambda address: opened.enter_context(Connection(address))


def _sasl(mechanism, user, password, tls=None):
    return Security(tls=tls, sasl=Sasl(mechanism=mechanism, user=user, password=password))


def asks(address, security):
    """Whether a client with this security gets an answer; the error text if not."""
    try:
        with Client(address, 10, security) as client:
            client.any().ask(MetadataRequest(topics=[]))
    except OperationFailed as error:
        return str(error)
    return True


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_user_with_the_right_password_passes_and_no_other(addresses, pem, listener, mechanism):
    tls = Tls(ca=pem.ca) if listener == "SASL_SSL" else None
    address = addresses[listener]
    assert asks(address, _sasl(mechanism, "alice", "s3cret-alice", tls)) is True
    refusals = {re.sub(user, "X", asks(address, _sasl(mechanism, user, "wrong", tls))) for user in ("alice", "nobody")}
    assert len(refusals) == 1, "the answers must not show who exists"


def test_an_authenticated_client_without_an_end_of_its_session_cannot_authenticate_again(addresses, connect):
    connection = authenticated(connect, addresses["SASL_PLAINTEXT"])
    assert connection.call("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == ILLEGAL_SASL_STATE
    assert connection.call("SaslAuthenticate", 2, auth_bytes=b"")["error_code"] == ILLEGAL_SASL_STATE


def test_a_plain_listener_knows_no_authentication(addresses, connect):
    connection = connect(addresses["PLAINTEXT"])
    assert connection.call("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == ILLEGAL_SASL_STATE
    assert connection.call("Metadata", 1, topics=[])["brokers"]


def authenticated(connect, address, user="alice", password="s3cret-alice"):
    connection = connect(address)
    assert connection.call("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
    answer = connection.call("SaslAuthenticate", 2, auth_bytes=f"\0{user}\0{password}".encode())
    assert answer["error_code"] == 0, answer
    connection.session_ms = answer["session_lifetime_ms"]
    return connection


def test_a_client_that_authenticates_again_in_time_goes_on_and_another_is_cut_off(addresses, connect):
    """KIP-368. The times are the server's."""
    address = addresses["SHORT"]
    late, punctual = authenticated(connect, address), authenticated(connect, address)
    assert late.session_ms == punctual.session_ms == 1500
    time.sleep(0.5)  # its second session ends later than the other's first
    assert punctual.call("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
    answer = punctual.call("SaslAuthenticate", 2, auth_bytes=b"\0alice\0s3cret-alice")
    assert (answer["error_code"], answer["session_lifetime_ms"]) == (0, 1500)

    def is_cut_off():
        try:
            late.call("Metadata", 1, topics=[])
        except ConnectionClosed:
            return True
        return False

    wait_until(is_cut_off, "the end of the session")
    assert punctual.call("Metadata", 1, topics=[])["brokers"]


def test_a_certificate_is_needed_where_the_listener_requires_one(addresses, pem):
    with_certificate = Security(tls=Tls(ca=pem.ca, certificate=pem.certificate, key=pem.key))
    assert asks(addresses["MUTUAL"], with_certificate) is True
    assert asks(addresses["MUTUAL"], Security(tls=Tls(ca=pem.ca))) is not True
    assert asks(addresses["SSL"], Security(tls=Tls(ca=pem.ca))) is True


def test_handshakes_that_never_end_disturb_nobody(addresses, pem):
    host, _, port = addresses["SSL"].rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(50)]
    for each in silent[::2]:
        each.sendall(b"\x16\x03\x01\x02\x00")
    assert asks(addresses["SSL"], Security(tls=Tls(ca=pem.ca))) is True
    for each in silent:
        each.close()
    assert asks(addresses["SSL"], Security(tls=Tls(ca=pem.ca))) is True


def test_a_client_that_speaks_no_tls_is_cut_off(addresses, connect):
    connection = connect(addresses["SSL"])
    connection.send("ApiVersions", 0, {})
    with pytest.raises(ConnectionClosed):
        connection.receive()


def test_a_renewed_certificate_is_used_without_a_restart(server, addresses, pem, tmp_path):
    host, _, port = addresses["SSL"].rpartition(":")
    path = server.folder / "both.pem"
    former = path.read_text()
    renewed = certificates(tmp_path)

    def served():
        return ssl.get_server_certificate((host, int(port)), timeout=5)

    before = served()
    path.write_text("no certificate")
    wait_until(lambda: "event=tls_not_reloaded" in server.log, "the complaint")
    assert served() == before
    path.write_text(renewed.key.read_text() + renewed.certificate.read_text())
    wait_until(lambda: served() != before, "the renewed certificate")
    path.write_text(former)
    wait_until(lambda: served() == before, "the former certificate")


def credentials(address, **changes):
    with Client(address, 10, Security()) as client:
        return client.any().ask(AlterUserScramCredentialsRequest(**changes)).results


def upsertion(user, salted, mechanism=1, iterations=4096):
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(user, mechanism, iterations, b"s" * 32, salted)


def test_scram_credentials_are_set_listed_used_and_deleted(server, addresses):
    address = addresses["PLAINTEXT"]
    salted = hashlib.pbkdf2_hmac("sha256", b"s3cret-carol", b"s" * 32, 4096)
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
    assert [each.error_code for each in credentials(address, upsertions=[upsertion("carol", salted)])] == [0]
    assert asks(addresses["SASL_PLAINTEXT"], _sasl("SCRAM-SHA-256", "carol", "s3cret-carol")) is True
    server.kill()
    server.start()
    assert asks(addresses["SASL_PLAINTEXT"], _sasl("SCRAM-SHA-256", "carol", "s3cret-carol")) is True
    with Client(address, 10, Security()) as client:
        found = client.any().ask(DescribeUserScramCredentialsRequest(users=None)).results
    assert [(each.user, [(info.mechanism, info.iterations) for info in each.credential_infos]) for each in found] == [
        ("carol", [(1, 4096)])
    ]
    outcomes = credentials(
        address,
        deletions=[deletion("nobody", 1), deletion("", 1), deletion("carol", 1)],
        upsertions=[
            upsertion("few", b"x", iterations=4095),
            upsertion("many", b"x", iterations=16_385),
            upsertion("x", b"x", 3),
        ],
    )
    assert {each.user: each.error_code for each in outcomes} == {
        "nobody": RESOURCE_NOT_FOUND,
        "": UNACCEPTABLE_CREDENTIAL,
        "carol": 0,
        "few": UNACCEPTABLE_CREDENTIAL,
        "many": UNACCEPTABLE_CREDENTIAL,
        "x": UNSUPPORTED_SASL_MECHANISM,
    }
    assert asks(addresses["SASL_PLAINTEXT"], _sasl("SCRAM-SHA-256", "carol", "s3cret-carol")) is not True


def challenge(address, user):
    """The salt and the iterations that the server names to a user of SCRAM."""
    it = Dialog(address)
    with closing(it.link):
        it.handshake("SCRAM-SHA-256")
        it.token(f"n,,n={user},r=abcdef".encode())
    return re.sub(r"r=[^,]*,", "", it.last_token.decode())


def test_a_crash_changes_no_salt_neither_of_users_nor_of_strangers(server, addresses):
    """SCRAM's first message would else show who exists."""
    users = ("alice", "nobody", "noone")
    before = [challenge(addresses["SASL_PLAINTEXT"], user) for user in users]
    assert len({len(each) for each in before}) == 1, before
    server.kill()
    server.start()
    assert [challenge(addresses["SASL_PLAINTEXT"], user) for user in users] == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl.keystore.location": "/absent"}, "ssl.keystore"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.key": "s3cret-key"}, "ssl.keystore"),
        ({"ssl.principal.mapping.rules": "RULE:"}, "invalid rule"),
    ],
)
def test_a_server_with_unusable_tls_does_not_start_and_says_which_setting(tmp_path, pem, settings, words):
    both = tmp_path / "both.pem"
    both.write_text(pem.key.read_text() + pem.certificate.read_text())
    values = {"listeners": "SSL://127.0.0.1:0", **settings}
    if "ssl.keystore.key" not in values:
        values.setdefault("ssl.keystore.location", str(both))
    arguments = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "coordinator", "serve", "--data-dir", str(tmp_path / "data"), *arguments]
    done = subprocess.run([*command, "--admin", "127.0.0.1:0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr
    assert "s3cret" not in done.stderr

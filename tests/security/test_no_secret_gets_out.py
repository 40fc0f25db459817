"""No password, token or key that a server was given, or that a client sent, is in any file, log, metric or answer of it.

Clients log in rightly and wrongly, requests are cut off and too long. Then all that the server has written or said is searched.
"""

import base64
import hashlib
import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest

from tests.security.sasl_dialogs import Dialog, bearer, unsigned_token
from tests.support.server_process import ServerProcess
from tests.support.tls import Pem, certificates
from tests.support.waiting import WITHIN_S
from tests.support.wire import encode, frame

PLANTED = {
    name: f"s3cret-{name}-{number:04}"
    for number, name in enumerate(
        (
            "password", "password-in-jaas", "other-password-in-jaas", "wrong-password", "password-as-user", "key",
            "admin-token", "wrong-admin-token", "scram-password", "scram-salted", "claim", "cut-off", "too-long",
        )
    )
}  # fmt: skip
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
VIEWS = (
    "/", "/metrics", "/health/ready", "/v1/openapi.json", "/v1/groups", "/v1/transactions", "/v1/topics", "/v1/faults",
    "/v1/recordings", "/v1/clock", "/v1/events?follow=false", "/v1/nowhere", "/v1/groups/none",
)  # fmt: skip
SALT = b"0123456789abcdef"
TOKEN = PLANTED["admin-token"]
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def pem(tmp_path_factory) -> Pem:
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def server(tmp_path_factory, pem) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    outside = folder / "given"
    outside.mkdir()
    (outside / "users").write_text(f"alice:{PLANTED['password']}\n")
    key = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", pem.key, "-passout", f"pass:{PLANTED['key']}"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    (outside / "both.pem").write_text(key + pem.certificate.read_text())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = f'user_bob="{PLANTED["password-in-jaas"]}" password="{PLANTED["other-password-in-jaas"]}"'
    (outside / "server.yaml").write_text(
        json.dumps(
            {
                "listeners": [
                    "SASL_PLAINTEXT://127.0.0.1:0",
                    {"address": "127.0.0.1:0", "name": "JAAS"},
                    "SSL://127.0.0.1:0",
                ],
                "listener.security.protocol.map": "JAAS:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.sasl_plaintext.plain.sasl.users.file": str(outside / "users"),
                "listener.name.jaas.plain.sasl.jaas.config": f"{module} {users};",
                "sasl.oauthbearer.unsecured.tokens": True,
                "connection.failed.authentication.delay.ms": 10,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:alice",
                "ssl.keystore.location": str(outside / "both.pem"),
                "ssl.key.password": PLANTED["key"],
                "admin.token": TOKEN,
                "admin.control.enable": True,
                "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 1,
            }
        )
    )
    process = ServerProcess(folder, config=outside / "server.yaml")
    process.start()
    yield process
    process.stop()


def test_no_secret_gets_out(server):
    recording = httpx.post(f"{server.admin}/v1/recordings", json={}, headers=BEARER, timeout=WITHIN_S)
    assert recording.status_code < 300, recording.text
    said = clients_ask(server.bootstrap)
    said["recording"] = admin(server, f"/v1/recordings/{recording.json()['id']}", BEARER).content
    assert b"SaslAuthenticate" in said["recording"]
    said |= {path: admin(server, path, BEARER).content for path in VIEWS}
    said |= {f"{path} of a stranger": admin(server, path, wrong).content for path in VIEWS for wrong in strangers()}
    assert b"coordinator_authentications_failed_total" in said["/metrics"]
    server.kill()
    said |= commands(server)
    assert b"[hidden]" in said["config show"]
    server.start()
    server.terminate()
    said |= {str(path): path.read_bytes() for path in server.data_dir.rglob("*") if path.is_file()}
    said["log"] = server.log.encode()
    assert b"Authentication failed" in said["log"]
    assert not [(where, name) for where, text in said.items() for name in PLANTED if shows(text, PLANTED[name])]


def shows(text: bytes, secret: str) -> bool:
    """Whether the text has the secret, plain or encoded."""
    plain = secret.encode()
    in_base64 = (base64.b64encode(bytes(shift) + plain)[4:-4] for shift in range(3))
    return any(each in text for each in (plain, plain.hex().encode(), *in_base64))


def admin(server: ServerProcess, path: str, headers: dict[str, str]) -> httpx.Response:
    return httpx.get(server.admin + path, headers=headers, timeout=WITHIN_S)


def strangers() -> list[dict[str, str]]:
    basic = base64.b64encode(f"{TOKEN}:{PLANTED['wrong-admin-token']}".encode()).decode()
    return [{}, {"Authorization": f"Bearer {PLANTED['wrong-admin-token']}"}, {"Authorization": f"Basic {basic}"}]


def clients_ask(address: str) -> dict[str, bytes]:
    """What clients hear that log in rightly and wrongly, set credentials, and send what is no request."""
    said = {}

    def note(name: str, say: Callable[[Dialog], object]) -> None:
        it = Dialog(address)
        with closing(it.link):
            say(it)
        said[name] = repr(it.heard).encode()

    alice = f"\0alice\0{PLANTED['password']}".encode()
    wrong = {
        "wrong": f"\0alice\0{PLANTED['wrong-password']}",
        "as user": f"\0{PLANTED['password-as-user']}\0",
        "without zeros": f"alice {PLANTED['password']}",
        "more zeros": f"\0alice\0{PLANTED['password']}\0{PLANTED['password']}",
        "as another": f"bob\0alice\0{PLANTED['password']}",
    }
    note("PLAIN", lambda it: (it.plain(alice), it.works(), it.plain(alice)))
    for name, token in wrong.items():
        note(f"PLAIN {name}", lambda it, token=token: it.plain(token.encode()))
        note(f"bare {name}", lambda it, token=token: (it.handshake(version=0), it.bare(token.encode())))
    salted = hashlib.pbkdf2_hmac("sha256", PLANTED["scram-password"].encode(), SALT, 4_096)
    for user, salted_password in (("carol", salted), ("dora", PLANTED["scram-salted"].encode())):
        wanted = {"name": user, "mechanism": 1, "iterations": 4_096, "salt": SALT, "salted_password": salted_password}
        for upsertions in ([wanted], [wanted | {"iterations": 1}], [wanted, wanted], [wanted | {"mechanism": 7}]):
            note(
                f"upsertion {user} {upsertions}"[:30],
                lambda it, upsertions=upsertions: (
                    it.plain(alice),
                    it.ask("AlterUserScramCredentials", 0, upsertions=upsertions),
                    it.ask("DescribeUserScramCredentials", 0, users=None),
                ),
            )
    for password in (PLANTED["scram-password"], PLANTED["wrong-password"]):
        note(f"SCRAM {password}", lambda it, password=password: it.scram("SCRAM-SHA-256", "carol", password))
    for claims in ({}, {"exp": 1_000}):
        token = bearer(unsigned_token(note=PLANTED["claim"], **claims))
        note(f"token {claims}", lambda it, token=token: (it.handshake("OAUTHBEARER"), it.token(token), it.token(b"\1")))
    note("token of garbage", lambda it: (it.handshake("OAUTHBEARER"), it.token(bearer(PLANTED["claim"]))))
    whole = frame("SaslAuthenticate", 2, encode("SaslAuthenticateRequest", 2, {"auth_bytes": alice}), 2, "test")
    for name, data in {
        "half a request": struct.pack(">i", len(whole) - 9) + whole[4:-5],
        "another version": whole[:6] + b"\0\x63" + whole[8:],
        "another API": whole[:4] + b"\x03\xe7" + whole[6:],
        "no request": PLANTED["cut-off"].encode() * 9,
        "too long": struct.pack(">i", 1 << 30) + PLANTED["too-long"].encode(),
        "before the handshake": whole,
    }.items():
        note(name, lambda it, data=data: it.raw(data))
        note(f"{name}, after the handshake", lambda it, data=data: (it.handshake(), it.raw(data)))
    configs = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    note(
        "configs",
        lambda it: (
            it.plain(alice),
            it.ask("DescribeConfigs", 4, resources=[configs], include_synonyms=True, include_documentation=True),
        ),
    )
    assert re.search(rb"'ssl.key.password', 'value': None, [^}]*'is_sensitive': True", said["configs"])
    return said


def commands(server: ServerProcess) -> dict[str, bytes]:
    """What commands print about the configuration, and about the folder of a server that was killed."""
    calls = {
        "config show": ("config", "show", "--config", str(server.config)),
        "log dump": ("log", "dump", str(server.data_dir), "--json"),
        "log check": ("log", "check", str(server.data_dir)),
    }
    printed = {}
    for name, arguments in calls.items():
        done = subprocess.run([sys.executable, "-m", "coordinator", *arguments], capture_output=True, check=False)
        printed[name] = done.stdout + done.stderr
    dump = printed["log dump"]
    (kept,) = (row["value"] for row in map(json.loads, dump.splitlines()) if b"carol" in json.dumps(row).encode())
    assert {kept[field] for field in ("salt", "stored_key", "server_key")} == {"[hidden]"}
    return printed

"""Random and damaged requests of every API and version: plain, over TLS, with SASL, and before a client is authenticated.

Each is answered or its connection closes, no operation fails by a bug, and a member of another group is served meanwhile. The
longest time of its heartbeats is printed and not asserted, because others share the machine.
"""

import asyncio
import ssl
import struct
import sys
from functools import cache

import pytest

from coordinator.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.hostile.fuzzer import (
    API_VERSIONS,
    BUGS,
    CODEC,
    SEED,
    Outcome,
    RequestMaker,
    close,
    request_frame,
    response,
    send_every_version,
    supported,
)
from tests.hostile.honest_member import HonestMember
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the honest member's helpers read /proc")

WAYS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def server(tmp_path_factory, pem):
    folder = tmp_path_factory.mktemp("server")
    held = {name: HeldPort() for name in WAYS[1:]}
    (folder / "users").write_text("alice:secret\n")
    (folder / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    config = folder / "server.yaml"
    config.write_text(f"""
listeners:
  - PLAINTEXT://127.0.0.1:0
  - SSL://{held["SSL"].address}
  - SASL_PLAINTEXT://{held["SASL_PLAINTEXT"].address}
sasl.enabled.mechanisms: PLAIN
sasl.users.file: {folder}/users
ssl.keystore.location: {folder}/both.pem
connection.failed.authentication.delay.ms: 10
group.min.session.timeout.ms: 1
group.initial.rebalance.delay.ms: 10
offsets.topic.num.partitions: 4
transaction.state.log.num.partitions: 2
durability: write
""")
    process = ServerProcess(folder, config=config)
    with process.start():
        process.addresses = {"PLAINTEXT": process.bootstrap, **{name: each.address for name, each in held.items()}}
        yield process
    for each in held.values():
        each.release()


@pytest.fixture
def watched(server):
    """A member whose heartbeats are answered before, meanwhile and afterwards; in the end no bug is in the log."""
    with HonestMember(server.bootstrap) as honest:
        honest.is_served()
        yield honest
        honest.is_served()
    print(f"heartbeats: {honest.answers}, the longest {honest.worst_s * 1e3:.0f} ms")
    assert not [line for line in server.log.splitlines() if BUGS.search(line)], server.log[-20_000:]


@pytest.mark.parametrize(("way", "intact", "damaged"), [("PLAINTEXT", 4, 8), ("SSL", 1, 2), ("SASL_PLAINTEXT", 2, 6)])
def test_every_api_and_version_survives_mutated_frames(server, pem, watched, way, intact, damaged):
    """Of almost every version some request is answered, so the frames are not all refused at the first byte."""

    async def send() -> tuple[RequestMaker, Outcome]:
        maker = RequestMaker(SEED, await supported(server.host, server.port))
        connect = {"PLAINTEXT": _plain, "SSL": _tls, "SASL_PLAINTEXT": _authenticated}[way]
        return maker, await send_every_version(
            lambda: connect(server.addresses[way], pem), maker, intact=intact, damaged=damaged
        )

    maker, outcome = asyncio.run(send())
    print(f"sent={outcome.sent} answered={outcome.answered} closed={outcome.closed}")
    assert not outcome.unanswered, f"neither answered nor closed: {outcome.unanswered[0]}"
    assert outcome.sent == len(maker.every_version) * (intact + damaged)
    assert outcome.answered + outcome.closed > outcome.sent * 9 / 10, "the others are Produce with acks=0"
    assert len(outcome.answered_versions) > len(maker.every_version) * 2 / 3


def test_before_authentication_only_three_apis_are_looked_at(server, watched):
    """Every other request, whole or damaged, closes the connection without an answer, as if nothing had been read of it."""

    async def send() -> tuple[dict[int, int], int]:
        maker = RequestMaker(SEED, await supported(server.host, server.port))
        answers: dict[int, int] = {}
        sent = 0
        for key, version in maker.every_version:
            for is_damaged in (False, True, True):
                reader, writer = await _plain(server.addresses["SASL_PLAINTEXT"])
                _, name, _, body, _ = maker.request(key, version, is_damaged=is_damaged)
                writer.write(request_frame(key, name, version, body, 7, b"fuzz"))
                sent += 1
                if await _is_answered(reader):
                    answers[key] = answers.get(key, 0) + 1
                await close(writer)
        return answers, sent

    answers, sent = asyncio.run(send())
    assert sent > 600
    assert answers.keys() == {API_VERSIONS, SASL_HANDSHAKE}, "SaslAuthenticate comes after a SaslHandshake"


def test_mutated_authentications_are_refused_or_closed(server, watched):
    """A token of any bytes, in any version, gets the error of a failed authentication or closes the connection."""

    async def send() -> int:
        maker = RequestMaker(SEED, await supported(server.host, server.port))
        random, refused = maker.random, 0
        for number in range(150):
            reader, writer = await _plain(server.addresses["SASL_PLAINTEXT"])
            handshake_version, version = number % 2, random.choice((0, 1, 2))
            writer.write(_handshake(handshake_version))
            assert await _is_answered(reader)
            token = random.choice((b"", b"\0alice\0wrong", b"\0" * 3, random.randbytes(30), b"a\0" * 5_000))
            _, _, _, body, _ = maker.request(SASL_AUTHENTICATE, version, is_damaged=True)
            if number % 3:
                body = _token(version, token)
            frame = request_frame(SASL_AUTHENTICATE, "SaslAuthenticate", version, body, 8, b"fuzz")
            writer.write(frame if handshake_version else struct.pack(">i", len(token)) + token)
            if await _is_answered(reader):
                refused += 1
                assert not await _is_answered(reader), "the connection closes behind the error"
            await close(writer)
        return refused

    assert asyncio.run(send()) > 20


async def _is_answered(reader: asyncio.StreamReader) -> bool:
    """Whether a response comes; else the connection closes."""
    try:
        await asyncio.wait_for(response(reader), 60)
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    return True


async def _plain(address, _pem=None):
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def _tls(address, pem):
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port), ssl=_context(pem.ca))


@cache
def _context(ca):
    return ssl.create_default_context(cafile=ca)


async def _authenticated(address, _pem):
    reader, writer = await _plain(address)
    writer.write(_handshake(1))
    assert await _is_answered(reader)
    body = _token(2, b"\0alice\0secret")
    writer.write(request_frame(SASL_AUTHENTICATE, "SaslAuthenticate", 2, body, 6, b"fuzz"))
    message, _ = CODEC.decoder("SaslAuthenticateResponse", 2)(await response(reader), 5)
    assert message.error_code == 0
    return reader, writer


def _handshake(version: int) -> bytes:
    body = CODEC.encoder("SaslHandshakeRequest", version)(SaslHandshakeRequest(mechanism="PLAIN"))
    return request_frame(SASL_HANDSHAKE, "SaslHandshake", version, body, 5, b"fuzz")


def _token(version: int, token: bytes) -> bytes:
    """The body of a SaslAuthenticate."""
    return CODEC.encoder("SaslAuthenticateRequest", version)(SaslAuthenticateRequest(auth_bytes=token))

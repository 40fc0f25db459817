"""Dialogs of clients with a listener that asks for SASL: what they send, and what they get until the connection closes.

The users of PLAIN are alice and bob, that of SCRAM is carol, and all have the password `right`. Tokens are not signed.
"""

import base64
import hashlib
import hmac
import json
import re
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from tests.support.wire import Connection, ConnectionClosed, Values, encode, frame

ALICE = b"\0alice\0right"
SESSION_MS = 60_000
"""connections.max.reauth.ms of the servers."""
CLOSED = "closed"
AT_ONCE = 8
QUIET_S = 0.5
"""How long a connection that stays open is watched; one that failed closes much earlier."""


class Dialog:
    """One connection, with the answers so far."""

    def __init__(self, address: str):
        self.link = Connection(address, "test")
        self.heard: list[Any] = []
        self.last_token = b""

    def hear(self, receive: Callable[[], Any]) -> Any:
        try:
            answer = receive()
        except ConnectionClosed:
            answer = CLOSED
        self.heard.append(answer)
        return answer

    def ask(self, api: str, version: int, **values: Any) -> Any:
        return self.hear(lambda: shown(api, self.link.call(api, version, **values)))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask("SaslHandshake", version, mechanism=mechanism)

    def token(self, token: bytes, version: int = 2) -> Any:

        def receive() -> Values:
            answer = self.link.call("SaslAuthenticate", version, auth_bytes=token)
            self.last_token = answer["auth_bytes"]
            return shown("SaslAuthenticate", answer)

        return self.hear(receive)

    def plain(self, token: bytes = ALICE, version: int = 2) -> Any:
        self.handshake()
        return self.token(token, version)

    def bare(self, token: bytes) -> Any:
        """A message without a header, as after a SaslHandshake v0."""

        def receive() -> Any:
            self.link.send_bytes(struct.pack(">i", len(token)) + token)
            return text_of(self.link.receive_bytes())

        return self.hear(receive)

    def raw(self, data: bytes) -> Any:
        """Bytes that are no request; the answer is bytes, too."""

        def receive() -> Any:
            self.link.send_bytes(data)
            return f"<{len(self.link.receive_bytes())} bytes>"

        return self.hear(receive)

    def works(self) -> Any:
        return self.ask("DescribeCluster", 0)

    def scram(self, mechanism: str, user: str, password: str, change: Callable[[str], str] = str) -> None:
        """`change`: of the final message."""
        self.handshake(mechanism)
        bare = f"n={user},r=abcdef"
        answer = self.token(f"n,,{bare}".encode())
        if answer == CLOSED or answer["error_code"]:
            return
        self.token(change(client_final(mechanism, bare, self.last_token.decode(), password)).encode())


def client_final(mechanism: str, client_first: str, server_first: str, password: str) -> str:
    """The second message of a client (RFC 5802)."""
    name = "sha256" if mechanism.endswith("256") else "sha512"
    parts = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    key = hmac.digest(salted, b"Client Key", name)
    final = f"c=biws,r={parts['r']}"
    signed = hmac.digest(hashlib.new(name, key).digest(), f"{client_first},{server_first},{final}".encode(), name)
    proof = bytes(one ^ other for one, other in zip(key, signed, strict=True))
    return f"{final},p={base64.b64encode(proof).decode()}"


def shown(api: str, answer: Values) -> Values:
    """The answer without what is another each time."""
    answer = {key: value for key, value in answer.items() if key != "throttle_time_ms"}
    if api == "ApiVersions":
        return {
            "error_code": answer["error_code"],
            "names_itself": any(each["api_key"] == 18 for each in answer["api_keys"]),
        }
    if api == "SaslHandshake":
        answer["mechanisms"].sort()
    if api == "DescribeCluster":
        return {"error_code": answer["error_code"]}
    if api == "SaslAuthenticate":
        answer["auth_bytes"] = text_of(answer["auth_bytes"])
        if 0 < answer.get("session_lifetime_ms", 0) != SESSION_MS:
            answer["session_lifetime_ms"] = "<time>"
    return answer


def text_of(message: bytes) -> str:
    """A message of a mechanism, without random parts."""
    return re.sub(r"\b([rsv])=[^,]+", r"\1=<random>", message.decode(errors="replace"))


def unsigned_token(**claims: Any) -> str:
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now_s - 60, "exp": now_s + 3600} | claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def bearer(token: str, header: str = "n,,", pairs: str = "") -> bytes:
    return f"{header}\1auth=Bearer {token}\1{pairs}\1".encode()


DIALOGS: dict[str, Callable[[Dialog], None]] = {}
Say = Callable[[Dialog], None]


def dialog(function: Say) -> Say:
    DIALOGS[function.__name__.replace("_", " ")] = function
    return function


def _each(name: str, items: dict[str, Any], say: Callable[[Dialog, Any], None]) -> None:
    for label, item in items.items():
        DIALOGS[f"{name}: {label}"] = lambda it, item=item: say(it, item)


# --- before the handshake ---
_each(
    "first request",
    {
        "Metadata": ("Metadata", 1, {"topics": []}),
        "SaslAuthenticate": ("SaslAuthenticate", 2, {"auth_bytes": ALICE}),
        "JoinGroup": ("JoinGroup", 5, {"group_id": "g"}),
        "Produce": ("Produce", 9, {"acks": 1}),
    },
    lambda it, request: it.ask(request[0], request[1], **request[2]),
)


@dialog
def versions_come_first(it: Dialog) -> None:
    it.ask("ApiVersions", 4, client_software_name="test", client_software_version="1")
    it.plain()
    it.works()


@dialog
def versions_are_asked_twice(it: Dialog) -> None:
    it.ask("ApiVersions", 0)
    it.ask("ApiVersions", 0)


@dialog
def versions_of_a_bad_client(it: Dialog) -> None:
    it.ask("ApiVersions", 3, client_software_name="-", client_software_version="")
    it.plain()


@dialog
def versions_of_a_later_client(it: Dialog) -> None:
    it.raw(frame("ApiVersions", 99, b"", 1, "test"))
    it.ask("ApiVersions", 3, client_software_name="test", client_software_version="1")
    it.plain()


@dialog
def versions_between_handshake_and_token(it: Dialog) -> None:
    it.handshake()
    it.ask("ApiVersions", 0)


@dialog
def versions_after_the_token(it: Dialog) -> None:
    it.plain()
    it.ask("ApiVersions", 0)
    it.ask("ApiVersions", 0)


_each(
    "odd bytes first",
    {
        "of an unknown API": struct.pack(">ihhih", 10, 999, 0, 1, -1),
        "of a short header": struct.pack(">ih", 2, 17),
        "of nothing": struct.pack(">i", 0),
        "of a negative size": struct.pack(">i", -5),
        "of a large size": struct.pack(">i", 524_289) + b"\0\x12",
        "of text": b"GET / HTTP/1.1\r\n\r\n",
        "of a handshake of a later version": frame("SaslHandshake", 9, b"\0\5PLAIN", 1, "test"),
        "of half a handshake": frame("SaslHandshake", 1, b"\0\5PL", 1, "test"),
        "of a handshake and more": frame("SaslHandshake", 1, b"\0\5PLAIN!", 1, "test"),
    },
    lambda it, data: it.raw(data),
)

# --- the handshake ---
for version in (0, 1):
    _each(
        f"handshake v{version}",
        {name: (name, version) for name in ("PLAIN", "GSSAPI", "", "plain")},
        lambda it, of: it.handshake(*of),
    )


@dialog
def handshakes_with_two_mechanisms(it: Dialog) -> None:
    it.handshake("SCRAM-SHA-256")
    it.handshake("PLAIN")


@dialog
def metadata_instead_of_a_token(it: Dialog) -> None:
    it.handshake()
    it.ask("Metadata", 1, topics=[])


@dialog
def bare_tokens(it: Dialog) -> None:
    it.handshake(version=0)
    it.bare(ALICE)
    it.works()


@dialog
def bare_tokens_of_nobody(it: Dialog) -> None:
    it.handshake(version=0)
    it.bare(b"\0alice\0wrong")


@dialog
def a_header_where_none_may_be(it: Dialog) -> None:
    it.handshake(version=0)
    it.token(ALICE)


@dialog
def bare_tokens_where_a_header_must_be(it: Dialog) -> None:
    it.handshake(version=1)
    it.bare(ALICE)


@dialog
def a_token_of_a_later_version(it: Dialog) -> None:
    it.handshake()
    it.raw(frame("SaslAuthenticate", 9, b"", 2, "test"))


@dialog
def a_token_that_is_too_large(it: Dialog) -> None:
    it.handshake()
    it.token(b"\0alice\0" + b"x" * 524_300)


@dialog
def a_token_that_is_large(it: Dialog) -> None:
    it.handshake()
    it.token(b"\0alice\0" + b"x" * 500_000)


# --- PLAIN ---
for version in (0, 1, 2):
    _each(
        f"PLAIN v{version}",
        {"right": (ALICE, version), "wrong": (b"\0alice\0wrong", version)},
        lambda it, of: it.plain(*of),
    )
_each(
    "PLAIN",
    {
        "of an unknown user": b"\0nobody\0right",
        "as itself": b"alice\0alice\0right",
        "as another": b"bob\0alice\0right",
        "as another, wrong": b"bob\0alice\0wrong",
        "without a user": b"\0\0right",
        "without a password": b"\0alice\0",
        "of nothing": b"",
        "of one part": b"alice",
        "of two parts": b"alice\0right",
        "of four parts": b"\0alice\0right\0more",
        "of zeros": b"\0\0\0\0",
        "that is not UTF-8": b"\0al\xffice\0right",
        "in another case": b"\0Alice\0right",
        "with a space": b"\0alice\0right ",
    },
    lambda it, token: it.plain(token),
)


@dialog
def requests_of_a_refused_client(it: Dialog) -> None:
    it.plain(b"\0alice\0wrong")
    it.works()


@dialog
def token_in_the_same_packet(it: Dialog) -> None:
    first = frame("SaslHandshake", 1, encode("SaslHandshakeRequest", 1, {"mechanism": "PLAIN"}), 1, "test")
    second = frame("SaslAuthenticate", 2, encode("SaslAuthenticateRequest", 2, {"auth_bytes": ALICE}), 2, "test")
    it.raw(first + second)
    it.hear(lambda: f"<{len(it.link.receive_bytes())} bytes>")


# --- SCRAM ---
for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
    _each(
        mechanism,
        {"right": ("carol", "right"), "wrong": ("carol", "wrong"), "unknown user": ("nobody", "right")},
        lambda it, who, mechanism=mechanism: it.scram(mechanism, *who),
    )
_each(
    "SCRAM final",
    {
        "garbage": lambda _: "garbage",
        "empty": lambda _: "",
        "another nonce": lambda text: re.sub("r=.", "r=~", text),
        "another binding": lambda text: text.replace("c=biws", "c=eSws"),
        "no proof": lambda text: text.partition(",p=")[0],
        "short proof": lambda text: text.partition(",p=")[0] + ",p=AAAA",
        "odd proof": lambda text: text.partition(",p=")[0] + ",p=!",
        "an extension": lambda text: text.replace(",p=", ",x=y,p="),
    },
    lambda it, change: it.scram("SCRAM-SHA-256", "carol", "right", change),
)
_each(
    "SCRAM first",
    {
        "garbage": b"garbage",
        "empty": b"",
        "as another": b"n,a=bob,n=carol,r=abcdef",
        "as itself": b"n,a=carol,n=carol,r=abcdef",
        "without a binding that it could use": b"y,,n=carol,r=abcdef",
        "with a binding": b"p=tls-unique,,n=carol,r=abcdef",
        "with an extension": b"n,,n=carol,r=abcdef,x=y",
        "with a mandatory extension": b"n,,m=x,n=carol,r=abcdef",
        "without a nonce": b"n,,n=carol,r=",
        "of an odd user": b"n,,n=ca=rol,r=abcdef",
        "of no user": b"n,,n=,r=abcdef",
        "not UTF-8": b"n,,n=\xff,r=abcdef",
        "PLAIN": ALICE,
    },
    lambda it, token: (it.handshake("SCRAM-SHA-256"), it.token(token)),
)


@dialog
def scram_goes_on_after_the_end(it: Dialog) -> None:
    it.scram("SCRAM-SHA-256", "carol", "right")
    it.token(b"more")
    it.works()


# --- OAUTHBEARER ---
def _bearers(it: Dialog, token: bytes) -> None:
    it.handshake("OAUTHBEARER")
    it.token(token)


_each(
    "OAUTHBEARER",
    {
        "right": bearer(unsigned_token()),
        "as itself": bearer(unsigned_token(), "n,a=alice,"),
        "as another": bearer(unsigned_token(), "n,a=bob,"),
        "expired": bearer(unsigned_token(exp=1_000)),
        "without an end": bearer(unsigned_token(exp=None)),
        "without a subject": bearer(unsigned_token(sub=None)),
        "from the future": bearer(unsigned_token(iat=int(time.time()) + 3_600)),
        "no token": bearer("garbage"),
        "two parts": bearer("a.b"),
        "another scheme": b"n,,\1auth=Basic abc\1\1",
        "no auth": b"n,,\1\1",
        "garbage": b"garbage",
        "empty": b"",
        "an extension": bearer(unsigned_token(), pairs="key=value\1"),
        "an odd extension": bearer(unsigned_token(), pairs="k1=value\1"),
        "a binding": bearer(unsigned_token(), "p=x,,"),
    },
    _bearers,
)


@dialog
def refused_token_is_acknowledged(it: Dialog) -> None:
    it.handshake("OAUTHBEARER")
    it.token(bearer(unsigned_token(exp=1_000)))
    it.token(b"\1")


@dialog
def refused_token_is_not_acknowledged(it: Dialog) -> None:
    it.handshake("OAUTHBEARER")
    it.token(bearer(unsigned_token(exp=1_000)))
    it.token(bearer(unsigned_token()))


@dialog
def refused_token_and_another_request(it: Dialog) -> None:
    it.handshake("OAUTHBEARER")
    it.token(bearer(unsigned_token(exp=1_000)))
    it.works()


# --- again ---
@dialog
def authenticates_again(it: Dialog) -> None:
    it.plain()
    it.plain()
    it.works()


@dialog
def authenticates_again_and_again(it: Dialog) -> None:
    """Not within a second, but the first time does not count."""
    it.plain()
    it.plain()
    it.plain()
    it.works()


@dialog
def authenticates_again_without_a_handshake(it: Dialog) -> None:
    it.plain()
    it.token(ALICE)
    it.works()


@dialog
def authenticates_again_wrongly(it: Dialog) -> None:
    it.plain()
    it.plain(b"\0alice\0wrong")


@dialog
def authenticates_again_as_another(it: Dialog) -> None:
    it.plain()
    it.plain(b"\0bob\0right")


@dialog
def authenticates_again_with_another_mechanism(it: Dialog) -> None:
    it.plain()
    it.handshake("SCRAM-SHA-256")
    it.token(b"n,,n=alice,r=abcdef")


@dialog
def authenticates_again_with_an_unknown_mechanism(it: Dialog) -> None:
    it.plain()
    it.handshake("GSSAPI")


@dialog
def authenticates_again_with_bare_tokens(it: Dialog) -> None:
    it.plain()
    it.handshake(version=0)
    it.bare(ALICE)
    it.works()


@dialog
def asks_in_the_middle_of_authenticating_again(it: Dialog) -> None:
    it.plain()
    it.handshake()
    it.works()


@dialog
def asks_for_versions_and_authenticates_again(it: Dialog) -> None:
    it.plain()
    it.ask("ApiVersions", 3, client_software_name="test", client_software_version="1")
    it.plain()
    it.works()


def heard(address: str) -> dict[str, list[Any]]:
    """What each client hears. At the end of each dialog the connection is closed, or still open."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(DIALOGS, pool.map(lambda say: _heard(address, say), DIALOGS.values()), strict=True))


def _heard(address: str, say: Callable[[Dialog], None]) -> list[Any]:
    it = Dialog(address)
    with closing(it.link):
        say(it)
        if it.heard[-1] != CLOSED:
            it.heard.append(_end(it))
    return it.heard


def _end(it: Dialog) -> str:
    try:
        it.link.receive_bytes(QUIET_S)
    except ConnectionClosed:
        return CLOSED
    except TimeoutError:
        return "open"
    return "more"

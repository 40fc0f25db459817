"""What Kafka 4.4 answers to requests about delegation tokens, and to clients that authenticate with one.

A step is a client, a request, and the name that its token gets. Answers are kept without what each server makes up: tokens and
passwords by the names of the steps, times as seconds from now.
"""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.security.sasl_dialogs import Dialog, client_final
from tests.support.wire import Connection, Values

RECORDED = Path(__file__).with_name("kafka_4_4_token_answers.json")
KEY = "s3cret-key-of-the-tokens"
SETTINGS = {
    "delegation.token.secret.key": KEY,
    "delegation.token.max.lifetime.ms": "3600000",
    "delegation.token.expiry.time.ms": "600000",
    "connections.max.reauth.ms": "0",
}
TIMES = "timestamp"
ROUNDED_S = 100
PASSWORDS = {"alice": "right", "bob": "right"}
USER = "User"


class Of(NamedTuple):
    """Stands for the password of a token in a request."""

    token: str


class Step(NamedTuple):
    who: str
    api: str
    version: int
    request: Values
    makes: str = ""


STEPS: list[Step] = []


def step(who: str, api: str, version: int, makes: str = "", **request: Any) -> None:
    STEPS.append(Step(who, f"{api}DelegationToken", version, request, makes))


def owners(*names: str) -> list[Values]:
    return [{"principal_type": USER, "principal_name": name} for name in names]


NOBODY = {"owner_principal_type": None, "owner_principal_name": None}
for version in (1, 2, 3):
    step("", "Create", version, max_lifetime_ms=-1, **(NOBODY if version == 3 else {}))
    step("", "Describe", version, owners=None)
for version in (1, 2):
    step("", "Renew", version, hmac=b"x", renew_period_ms=-1)
    step("", "Expire", version, hmac=b"x", expiry_time_period_ms=-1)
step("alice", "Create", 3, "alice's", max_lifetime_ms=-1, **NOBODY)
step("alice", "Create", 1, "bob renews", max_lifetime_ms=1_200_000, renewers=owners("bob"))
step("alice", "Create", 2, "zero", max_lifetime_ms=0)
step("alice", "Create", 2, "short", max_lifetime_ms=100_000)
step("alice", "Create", 3, "long", max_lifetime_ms=10**12, **NOBODY)
for label, kind, name in (("for bob", USER, "bob"), ("no name", USER, ""), ("null name", USER, None)):
    step("alice", "Create", 3, label, max_lifetime_ms=-1, owner_principal_type=kind, owner_principal_name=name)
step("alice", "Create", 3, "group", max_lifetime_ms=-1, owner_principal_type="Group", owner_principal_name="bob")
step("alice", "Create", 3, max_lifetime_ms=-1, owner_principal_type=None, owner_principal_name="bob")
for kind in ("Group", ""):
    renewer = {"principal_type": kind, "principal_name": "bob"}
    step("alice", "Create", 3, max_lifetime_ms=-1, renewers=[renewer], **NOBODY)
for who in ("alice", "bob"):
    for version, wanted in ((3, None), (1, []), (2, owners("bob")), (3, owners("nobody")), (3, owners("alice", "bob"))):
        step(who, "Describe", version, owners=wanted)
for period in (-1, 5_000_000, 0, 120_000, 2**40):
    step("alice", "Renew", 2, hmac=Of("alice's"), renew_period_ms=period)
step("alice", "Renew", 1, hmac=Of("alice's"), renew_period_ms=-1)
for who, token in (
    ("bob", "alice's"),
    ("bob", "bob renews"),
    ("bob", "for bob"),
    ("alice", "for bob"),
    ("alice", "group"),
):
    step(who, "Renew", 2, hmac=Of(token), renew_period_ms=100_000)
    step(who, "Expire", 2, hmac=Of(token), expiry_time_period_ms=200_000)
for hmac in (b"", b"nope"):
    step("alice", "Renew", 2, hmac=hmac, renew_period_ms=1)
    step("alice", "Expire", 2, hmac=hmac, expiry_time_period_ms=-1)
step("alice", "Expire", 1, hmac=Of("alice's"), expiry_time_period_ms=10**12)
step("alice", "Expire", 2, hmac=Of("zero"), expiry_time_period_ms=-1)
step("alice", "Expire", 2, hmac=Of("zero"), expiry_time_period_ms=-1)
step("alice", "Renew", 2, hmac=Of("zero"), renew_period_ms=-1)
LOGINS = {
    "a token": ("alice's", "alice's", ",tokenauth=true"),
    "a token, in capitals": ("alice's", "alice's", ",tokenauth=TRUE"),
    "another's password": ("alice's", "for bob", ",tokenauth=true"),
    "without the extension": ("alice's", "alice's", ""),
    "with tokenauth=false": ("alice's", "alice's", ",tokenauth=false"),
    "with two extensions": ("alice's", "alice's", ",foo=bar,tokenauth=true"),
    "a token that was removed": ("zero", "zero", ",tokenauth=true"),
    "a token of another owner": ("for bob", "for bob", ",tokenauth=true"),
}
BY_TOKEN = ("Create", {"max_lifetime_ms": -1, **NOBODY}), ("Describe", {"owners": None}), (
    "Renew", {"hmac": b"x", "renew_period_ms": -1}), ("Expire", {"hmac": b"x", "expiry_time_period_ms": -1})  # fmt: skip
"""What a client asks that has authenticated with a token."""


class Tokens:
    """The tokens of a run, by the names of the steps."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.passwords: dict[str, bytes] = {}

    def note(self, name: str, answer: Values) -> None:
        self.ids[name], self.passwords[name] = answer["token_id"], answer["hmac"]

    def filled(self, value: Any) -> Any:
        if isinstance(value, Of):
            return self.passwords[value.token]
        return {key: self.filled(each) for key, each in value.items()} if isinstance(value, dict) else value

    def shown(self, value: Any, key: str = "") -> Any:
        """A value of an answer as it is kept."""
        if isinstance(value, dict):
            return {name: self.shown(each, name) for name, each in value.items() if name != "throttle_time_ms"}
        if isinstance(value, list):
            found = [self.shown(each, key) for each in value]
            return sorted(found, key=repr) if key == "tokens" else found
        if TIMES in key and value > 0:
            return f"{round((value / 1000 - time.time()) / ROUNDED_S) * ROUNDED_S} s"
        names = {self.ids[name]: name for name in self.ids} if isinstance(value, str) else {}
        if isinstance(value, bytes):
            return next((name for name, each in self.passwords.items() if each == value), f"<{len(value)} bytes>")
        return names.get(value, value)


def answers(sasl: str, plain: str, propagation_s: float = 0.0) -> dict[str, Any]:
    """What a new server answers, at a listener with SASL and one without.

    `propagation_s`: how long Kafka's broker may take to learn from its controller what a request has changed.
    """
    tokens = Tokens()
    with ExitStack() as stack:
        clients = {"": stack.enter_context(closing(Connection(plain)))}
        for user, password in PASSWORDS.items():
            it = Dialog(sasl)
            stack.enter_context(closing(it.link))
            it.plain(f"\0{user}\0{password}".encode())
            clients[user] = it.link
        steps = []
        changed = False
        for who, api, version, request, makes in STEPS:
            time.sleep(propagation_s * changed)
            answer = clients[who].call(api, version, **tokens.filled(request))
            changed = not (answer["error_code"] or api.startswith("Describe"))
            if makes and not answer["error_code"]:
                tokens.note(makes, answer)
            steps.append(tokens.shown(answer))
        time.sleep(propagation_s)
    logins = {}
    for name, (token, password, extension) in LOGINS.items():
        logins[name] = [tokens.shown(each) for each in log_in(sasl, tokens, token, password, extension)]
    return {"steps": steps, "logins": logins}


def log_in(sasl: str, tokens: Tokens, token: str, password: str, extension: str) -> Iterator[Values]:
    """What a client hears that authenticates with a token, and what it is answered then."""
    it = Dialog(sasl)
    with closing(it.link):
        it.handshake("SCRAM-SHA-512")
        bare = f"n={tokens.ids[token]},r=abcdef{extension}"
        first = it.token(f"n,,{bare}".encode())
        if first["error_code"]:
            yield first
            return
        text = base64.b64encode(tokens.passwords[password]).decode()
        final = it.token(client_final("SCRAM-SHA-512", bare, it.last_token.decode(), text).encode())
        yield final | {"session_lifetime_ms": "<time>" if final["session_lifetime_ms"] else 0}
        if not final["error_code"]:
            for api, request in BY_TOKEN:
                yield it.link.call(f"{api}DelegationToken", 2 if api != "Create" else 3, **request)


def read() -> dict[str, Any]:
    return json.loads(RECORDED.read_text())


def write(found: dict[str, Any]) -> None:
    steps = ",\n".join(f"  {json.dumps(each)}" for each in found["steps"])
    logins = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in found["logins"].items())
    RECORDED.write_text(f'{{\n"steps": [\n{steps}\n],\n"logins": {{\n{logins}\n}}\n}}\n')

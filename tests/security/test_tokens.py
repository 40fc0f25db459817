"""OAUTHBEARER accepts a token that its issuer has signed for this server and whose time has come (RFC 7628, KIP-768)."""

import base64
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from coordinator.config.security import SaslConfig
from coordinator.security.oauthbearer import InvalidToken
from coordinator.security.tokens import RETRY_MS, Keys, SignedTokens, UnsecuredTokens, UnusableKeys

NOW_S = 1_800_000_000
RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
CLAIMS = {"sub": "alice", "iss": "issuer", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 60, "scope": "read write"}


class Clock:
    """A clock that a test sets."""

    now_ms = NOW_S * 1000

    def wall_ms(self):
        return self.now_ms

    monotonic_ms = machine_ms = wall_ms


def jwks(**keys):
    entries = []
    for name, key in keys.items():
        algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        entries.append(json.loads(algorithm.to_jwk(key.public_key())) | {"kid": name})
    return json.dumps({"keys": entries})


class Worker:
    """Does the work when a test says so."""

    def __init__(self):
        self.waiting = []

    def __call__(self, function, done):
        self.waiting.append((function, done))

    def work(self):
        for function, done in self.waiting:
            try:
                outcome = function()
            except UnusableKeys as error:
                outcome = error
            done(outcome)
        self.waiting = []


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(jwks(r=RSA_KEY, e=EC_KEY))
    return path


@pytest.fixture
def verifier(document):
    def make(worker=None, **config):
        settings = {
            "sasl_oauthbearer_expected_audience": ("kafka",),
            "sasl_oauthbearer_expected_issuer": "issuer",
            **config,
        }
        keys = Keys(f"file://{document}", 3_600_000, Clock().machine_ms, worker or Worker())
        return SignedTokens(SaslConfig(**settings), keys, Clock())

    return make


def signed(key=RSA_KEY, algorithm="RS256", kid="r", **claims):
    content = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode(content, key, algorithm, headers={"kid": kid} if kid else None)


@pytest.mark.parametrize(
    "token",
    [signed(), signed(algorithm="PS256"), signed(EC_KEY, "ES256", "e"), signed(aud=["x", "kafka"])],
    ids=["RS256", "PS256", "ES256", "two audiences"],
)
def test_a_token_names_the_user_and_the_end_of_the_session(verifier, token):
    assert verifier().verify(token) == ("alice", (NOW_S + 60) * 1000)


def shared_secret_token():
    """A token that is signed with the public key as a shared secret, which naive verifiers accept."""
    head, body = ({"alg": "HS256", "kid": "r"}, CLAIMS)
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (head, body))
        + ".AAAA"
    )


@pytest.mark.parametrize(
    "token",
    [
        signed(exp=NOW_S - 31),
        signed(iat=NOW_S + 31),
        signed(nbf=NOW_S + 31),
        signed(exp=None),
        signed(iat=None),
        signed(sub=None),
        signed(sub=" "),
        signed(aud="other"),
        signed(aud=None),
        signed(iss="other"),
        signed(kid="unknown"),
        signed(rsa.generate_private_key(public_exponent=65_537, key_size=2048)),
        signed() + "x",
        jwt.encode(CLAIMS, None, "none"),
        shared_secret_token(),
        "",
        "a.b.c",
    ],
    ids=range(17),  # signatures differ from process to process
)
def test_any_other_token_is_refused(verifier, token):
    with pytest.raises(InvalidToken):
        verifier().verify(token)


def test_a_token_within_the_clock_skew_is_accepted(verifier):
    assert verifier().verify(signed(exp=NOW_S - 29, iat=NOW_S + 29)).user == "alice"


@pytest.mark.parametrize(
    ("scope", "accepted"), [("admin read", True), (["read", "admin"], True), ("admin", False), (None, False)]
)
def test_a_token_needs_every_required_scope(verifier, scope, accepted):
    verify = verifier(sasl_oauthbearer_required_scope=("read", "admin")).verify
    if accepted:
        assert verify(signed(scope=scope)).user == "alice"
    else:
        with pytest.raises(InvalidToken, match="scope"):
            verify(signed(scope=scope))


def test_an_unknown_key_makes_the_server_read_the_document_again(verifier, document, monkeypatch):
    worker = Worker()
    verify = verifier(worker).verify
    document.write_text(jwks(r=RSA_KEY, new=EC_KEY))
    token = signed(EC_KEY, "ES256", "new")
    monkeypatch.setattr(Clock, "now_ms", Clock.now_ms + RETRY_MS)
    with pytest.raises(InvalidToken):
        verify(token)
    worker.work()
    assert verify(token).user == "alice"


def test_an_unreadable_document_leaves_the_former_keys(verifier, document, monkeypatch):
    worker = Worker()
    verify = verifier(worker).verify
    document.write_text("no keys")
    monkeypatch.setattr(Clock, "now_ms", Clock.now_ms + 3_600_000)
    token = signed(iat=NOW_S, exp=NOW_S + 7200)
    assert verify(token).user == "alice"
    worker.work()
    assert verify(token).user == "alice"


def test_a_server_does_not_start_without_its_keys(tmp_path):
    with pytest.raises(UnusableKeys, match="jwks"):
        Keys(f"file://{tmp_path}/absent", 1, Clock().machine_ms, Worker())


def test_unsecured_tokens_are_taken_at_their_word():
    verify = UnsecuredTokens(SaslConfig(), Clock()).verify
    assert verify(jwt.encode(CLAIMS, None, "none")).user == "alice"
    for token in (signed(), jwt.encode(CLAIMS | {"exp": NOW_S - 60}, None, "none"), "x", "e30.e30."):
        with pytest.raises(InvalidToken):
            verify(token)

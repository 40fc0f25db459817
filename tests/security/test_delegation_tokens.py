"""Delegation tokens do what they do in Kafka 4.4 (token_answers.py), and outlive the server.

`pytest -m java tests/security/test_delegation_tokens.py --rewrite` records Kafka's answers again.
"""

import base64
import time
from contextlib import closing

import pytest

from tests.security import sasl_servers, token_answers
from tests.security.sasl_dialogs import Dialog, client_final
from tests.security.token_answers import LOGINS, SETTINGS, STEPS
from tests.support.ports import HeldPort
from tests.support.waiting import wait_until

AUTH_DISABLED, EXPIRED, AUTHENTICATION_FAILED = 61, 66, 58
DIFFERENT_LOGINS = {"without the extension", "with tokenauth=false", "another's password", "a token that was removed"}
"""Here who is unknown fails at the second message, as a wrong password does."""
UNORDERED_IN_KAFKA = "with two extensions"
"""Kafka signs the extensions in the order of a Java map, which differs between runs of the JVM: one login in two fails."""


@pytest.fixture
def plain():
    """The port of a listener without SASL."""
    held = HeldPort()
    yield held
    held.release()


def serving(folder, plain, settings=SETTINGS):
    return sasl_servers.ours(folder, settings, f"SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://{plain.address}")


@pytest.fixture
def server(tmp_path, plain):
    with serving(tmp_path, plain) as process:
        yield process


def test_requests_and_logins_are_answered_as_by_kafka(server, plain):
    found, recorded = token_answers.answers(server.bootstrap, plain.address), token_answers.read()
    for number, (step, ours, kafka) in enumerate(zip(STEPS, found["steps"], recorded["steps"], strict=True)):
        assert ours == kafka, f"step {number}: {step}"
    for name in LOGINS:
        if name in DIFFERENT_LOGINS:
            assert [each["error_code"] for each in found["logins"][name]][-1] == AUTHENTICATION_FAILED
        assert found["logins"][name] == recorded["logins"][name] or name in DIFFERENT_LOGINS, name


@pytest.mark.thorough
@pytest.mark.java
def test_kafka_answers_so(tmp_path, plain, request):
    broker = sasl_servers.kafka(tmp_path, SETTINGS, plain)
    broker.start()
    try:
        found = token_answers.answers(broker.bootstrap, plain.address, propagation_s=1.0)
    finally:
        broker.stop()
    recorded = token_answers.read()
    found["logins"][UNORDERED_IN_KAFKA] = recorded["logins"][UNORDERED_IN_KAFKA]
    if request.config.getoption("--rewrite"):
        token_answers.write(found)
    assert found == token_answers.read()


def alice_of(server):
    it = Dialog(server.bootstrap)
    it.plain()
    return closing(it.link)


def create(link, lifetime_ms=-1):
    answer = link.call("CreateDelegationToken", 2, max_lifetime_ms=lifetime_ms)
    assert answer["error_code"] == 0
    return answer


def enters(server, token, mechanism="SCRAM-SHA-256"):
    """The error of a login with a token, or the answer to a request of alice afterwards."""
    it = Dialog(server.bootstrap)
    with closing(it.link):
        it.handshake(mechanism)
        bare = f"n={token['token_id']},r=abcdef,tokenauth=true"
        it.token(f"n,,{bare}".encode())
        password = base64.b64encode(token["hmac"]).decode()
        answer = it.token(client_final(mechanism, bare, it.last_token.decode(), password).encode())
        return answer["error_code"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_survives_a_kill_and_ends_when_it_is_removed(server, mechanism):
    with alice_of(server) as link:
        token = create(link)
        renewed = link.call("RenewDelegationToken", 2, hmac=token["hmac"], renew_period_ms=1_000_000)
    server.restart(kill=True)
    assert enters(server, token, mechanism) == 0
    with alice_of(server) as link:
        (found,) = link.call("DescribeDelegationToken", 3, owners=None)["tokens"]
        assert (found["token_id"], found["hmac"]) == (token["token_id"], token["hmac"])
        assert found["expiry_timestamp"] == renewed["expiry_timestamp_ms"]
        link.call("ExpireDelegationToken", 2, hmac=token["hmac"], expiry_time_period_ms=-1)
        assert link.call("DescribeDelegationToken", 3, owners=None)["tokens"] == []
    assert enters(server, token, mechanism) == AUTHENTICATION_FAILED


def test_an_expired_token_cannot_be_used_or_renewed_and_is_removed(tmp_path, plain):
    settings = SETTINGS | {"delegation.token.expiry.check.interval.ms": "2000"}
    with serving(tmp_path, plain, settings) as server, alice_of(server) as link:
        token = create(link, 1)
        kept = create(link)
        wait_until(lambda: time.time() * 1000 > token["expiry_timestamp_ms"] + 1, "the token to expire")
        assert enters(server, token) == AUTHENTICATION_FAILED
        assert enters(server, kept) == 0
        answer = link.call("RenewDelegationToken", 2, hmac=token["hmac"], renew_period_ms=-1)
        assert answer["error_code"] in (EXPIRED, 62)
        wait_until(lambda: len(tokens_of(link)) == 1, "the expired token to be removed")
        assert tokens_of(link) == [kept["token_id"]]


def tokens_of(link):
    return [each["token_id"] for each in link.call("DescribeDelegationToken", 3, owners=None)["tokens"]]


def test_without_a_key_there_are_no_tokens(tmp_path, plain):
    with serving(tmp_path, plain, {}) as server, alice_of(server) as link:
        asked = {
            "Create": {"max_lifetime_ms": -1},
            "Describe": {"owners": None},
            "Renew": {"hmac": b"x", "renew_period_ms": -1},
            "Expire": {"hmac": b"x", "expiry_time_period_ms": -1},
        }
        errors = {link.call(f"{api}DelegationToken", 2, **request)["error_code"] for api, request in asked.items()}
        assert errors == {AUTH_DISABLED}


def test_no_file_or_log_has_the_key_or_the_password_of_a_token(server):
    with alice_of(server) as link:
        token = create(link)
    assert enters(server, token) == 0
    server.terminate()
    secrets = [token_answers.KEY.encode(), token["hmac"], base64.b64encode(token["hmac"]), token["hmac"].hex().encode()]
    written = [path.read_bytes() for path in server.data_dir.rglob("*") if path.is_file()] + [server.log.encode()]
    assert not [secret for secret in secrets for content in written if secret in content]

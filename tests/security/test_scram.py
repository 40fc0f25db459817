"""SCRAM authenticates who knows the password, and does not show who exists (RFC 5802)."""

import base64

import pytest

from coordinator.client.login.scram import Scram as ScramClient
from coordinator.client.login.scram import ScramFailed
from coordinator.protocol.messages import UserScramCredentialRecord
from coordinator.security.mechanism import AuthenticationFailed
from coordinator.security.scram import CODES, HASHES, ITERATIONS_MIN, Scram, credential_of_password
from coordinator.security.scram_users import ScramUsers

MECHANISMS = pytest.mark.parametrize("mechanism", list(CODES))


def client_of(mechanism, user, password):
    return ScramClient(HASHES[mechanism]().name, user, password)


def server_of(mechanism, users, key=b"key"):
    kept = {(name, CODES[mechanism]): record_of(mechanism, name, each) for name, each in users.items()}
    return Scram(mechanism, ScramUsers(mechanism, kept, {}, key).find)


def record_of(mechanism, name, credential):
    return UserScramCredentialRecord(name, CODES[mechanism], *credential)


def challenge_of(mechanism, users, name):
    """The salt and the iterations that a user gets."""
    challenge = server_of(mechanism, users).evaluate(client_of(mechanism, name, "x").first()).decode()
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    return base64.b64decode(parts["s"]), int(parts["i"])


def credential(mechanism, password="s3cret"):
    return credential_of_password(mechanism, password, b"salt" * 8, ITERATIONS_MIN)


@MECHANISMS
@pytest.mark.parametrize("user", ["alice", "a,b=c", "ünï"])
def test_the_right_password_authenticates_both_sides(mechanism, user):
    client, server = client_of(mechanism, user, "s3cret"), server_of(mechanism, {user: credential(mechanism)})
    client.verify(server.evaluate(client.final(server.evaluate(client.first()))))
    assert server.user == user
    with pytest.raises(AuthenticationFailed):
        server.evaluate(b"more")


@MECHANISMS
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_and_an_unknown_user_fail_alike_at_the_second_message(mechanism, user):
    client, server = client_of(mechanism, user, "wrong"), server_of(mechanism, {"alice": credential(mechanism)})
    challenge = server.evaluate(client.first())
    with pytest.raises(AuthenticationFailed) as failed:
        server.evaluate(client.final(challenge))
    assert str(failed.value) == ""
    assert server.user is None


@MECHANISMS
def test_an_unknown_user_has_the_same_salt_each_time(mechanism):
    assert challenge_of(mechanism, {}, "nobody") == challenge_of(mechanism, {}, "nobody")
    assert challenge_of(mechanism, {}, "nobody")[0] != challenge_of(mechanism, {}, "noone")[0]


@MECHANISMS
@pytest.mark.parametrize("salt", [b"0123abcxyz" * 3, bytes(range(7)), bytes(range(200))])
def test_an_unknown_user_gets_a_salt_and_iterations_of_the_kind_that_users_have(mechanism, salt):
    users = {"alice": credential_of_password(mechanism, "s3cret", salt, 8_192)}
    made_up, iterations = challenge_of(mechanism, users, "nobody")
    assert (len(made_up), iterations) == (len(salt), 8_192)
    assert made_up.isalnum() == salt.isalnum()


@MECHANISMS
def test_where_users_differ_unknown_users_differ_in_the_same_way(mechanism):
    kinds = {(30, 4_096), (16, 8_192), (16, 16_384)}
    users = {f"user-{kind}": credential_of_password(mechanism, "x", bytes(kind[0]), kind[1]) for kind in kinds}
    made_up = [challenge_of(mechanism, users, f"nobody-{number}") for number in range(40)]
    assert {(len(salt), iterations) for salt, iterations in made_up} == kinds
    assert made_up == [challenge_of(mechanism, users, f"nobody-{number}") for number in range(40)]


def test_the_kind_of_made_up_salts_follows_a_credential_that_is_set_again():
    mechanism, kept = "SCRAM-SHA-256", {}
    users = ScramUsers(mechanism, kept, {}, b"key")
    for iterations in (4_096, 8_192):
        kept.pop(("alice", 1), None)
        kept["alice", 1] = record_of(mechanism, "alice", credential_of_password(mechanism, "x", b"salt", iterations))
        assert users.find("nobody", is_token=False).credential.iterations == iterations


def test_the_server_proves_that_it_knows_the_password():
    mechanism = "SCRAM-SHA-256"
    client, server = client_of(mechanism, "alice", "s3cret"), server_of(mechanism, {"alice": credential(mechanism)})
    server.evaluate(client.final(server.evaluate(client.first())))
    with pytest.raises(ScramFailed):
        client.verify(b"v=" + b"AAAA")

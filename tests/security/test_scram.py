"""SCRAM authenticates who knows the password, and does not show who exists (RFC 5802)."""

import pytest

from coordinator.login.scram import Scram as ScramClient
from coordinator.login.scram import ScramFailed
from coordinator.security.mechanism import AuthenticationFailed
from coordinator.security.scram import CODES, HASHES, ITERATIONS_MIN, Scram, credential_of_password

MECHANISMS = pytest.mark.parametrize("mechanism", list(CODES))


def client_of(mechanism, user, password):
    return ScramClient(HASHES[mechanism]().name, user, password)


def server_of(mechanism, users):
    return Scram(mechanism, users.get)


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
    challenges = [server_of(mechanism, {}).evaluate(client_of(mechanism, "nobody", "x").first()) for _ in range(2)]
    salts = [next(part for part in each.split(b",") if part.startswith(b"s=")) for each in challenges]
    assert salts[0] == salts[1]


def test_a_final_message_with_another_nonce_is_refused():
    """CVE-2024-56128."""
    mechanism = "SCRAM-SHA-256"
    client, server = client_of(mechanism, "alice", "s3cret"), server_of(mechanism, {"alice": credential(mechanism)})
    final = client.final(server.evaluate(client.first())).decode()
    channel, nonce, proof = final.split(",", 2)
    with pytest.raises(AuthenticationFailed):
        server.evaluate(f"{channel},{nonce}x,{proof}".encode())


@pytest.mark.parametrize("message", [b"", b"n,,", b"\xff", b"n,,n=alice", b"p=tls-unique,,n=a,r=x", b"y" * 10_000])
def test_a_malformed_first_message_is_refused(message):
    with pytest.raises(AuthenticationFailed):
        server_of("SCRAM-SHA-256", {"alice": credential("SCRAM-SHA-256")}).evaluate(message)


def test_the_server_proves_that_it_knows_the_password():
    mechanism = "SCRAM-SHA-256"
    client, server = client_of(mechanism, "alice", "s3cret"), server_of(mechanism, {"alice": credential(mechanism)})
    server.evaluate(client.final(server.evaluate(client.first())))
    with pytest.raises(ScramFailed):
        client.verify(b"v=" + b"AAAA")

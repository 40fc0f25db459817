"""`coordinator acls` and `coordinator users` on a server with an authorizer and SASL."""

import json

import pytest

from tests.support.server_process import ServerProcess

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory):
    server = ServerProcess(tmp_path_factory.mktemp("server"), settings=AUTHORIZER)
    try:
        server.start()
        yield server.bootstrap
    finally:
        server.stop()


@pytest.fixture
def run(command):
    return command


def test_an_acl_is_added_for_each_combination_listed_and_removed(run):
    alice = ["--allow-principal", "User:alice", "--topic", "orders", "--group", "billing"]
    assert run("acls", "add", *alice, "--operation", "Read", "--operation", "Describe") == "4 ACLs added\n"
    prefixed = ["--deny-principal", "User:bob", "--topic", "secret-", "--resource-pattern-type", "prefixed"]
    assert run("acls", "add", *prefixed, "--operation", "AlterConfigs", "--host", "10.0.0.1") == "1 ACLs added\n"
    assert json.loads(run("acls", "list", "--principal", "User:bob", "--json"))["acls"] == [
        {
            "principal": "User:bob",
            "permission": "DENY",
            "operation": "ALTER_CONFIGS",
            "resource": "TOPIC",
            "pattern": "PREFIXED",
            "name": "secret-",
            "host": "10.0.0.1",
        }
    ]
    assert run("acls", "remove", *alice, "--operation", "Read") == "2 ACLs removed\n"
    assert run("acls", "remove", *alice, "--operation", "Read", expect=1) == "0 ACLs removed\n"
    assert {row.split()[2] for row in run("acls", "list").splitlines()[1:]} == {"DESCRIBE", "ALTER_CONFIGS"}


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--allow-principal", "User:alice"], "At least one resource"),
        (["--topic", "orders"], "A principal is required"),
        (["--topic", "orders", "--allow-principal", "alice"], "A principal is required"),
        (["--topic", "t", "--allow-principal", "User:a", "--operation", "Any"], "There is no operation Any"),
    ],
)
def test_an_incomplete_acl_is_refused(run, arguments, refusal):
    assert refusal in run("acls", "add", *arguments, expect=2)


def test_a_user_is_added_listed_and_removed(run, monkeypatch, tmp_path):
    monkeypatch.setenv("NEW_PASSWORD", "secret")
    assert run("users", "add", "alice") == "user alice can authenticate with SCRAM-SHA-512\n"
    file = tmp_path / "password"
    file.write_text("other\n")
    run("users", "add", "alice", "--mechanism", "SCRAM-SHA-256", "--new-password-file", str(file))
    found = json.loads(run("users", "list", "--json"))["users"]
    assert [(user["name"], user["mechanism"]) for user in found] == [
        ("alice", "SCRAM-SHA-256"),
        ("alice", "SCRAM-SHA-512"),
    ]
    run("users", "remove", "alice")
    assert "There is no file absent" in run("users", "add", "bob", "--new-password-file", "absent", expect=2)
    assert "there is no user alice" in run("users", "remove", "alice", expect=1)

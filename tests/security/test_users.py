"""The users of PLAIN come from a file or from Kafka's JAAS configuration, and errors show no password."""

import pytest

from coordinator.security.users import Passwords, UnusableUsers, read_jaas, read_users_file

JAAS = """org.apache.kafka.common.security.plain.PlainLoginModule required
  username="admin" password="admin-secret" user_admin="admin-secret" user_alice="a\\"b;c" user_bob=plain;"""


def test_the_users_of_a_jaas_configuration_are_its_options_with_user_in_front():
    assert read_jaas(JAAS) == {"admin": "admin-secret", "alice": 'a"b;c', "bob": "plain"}


@pytest.mark.parametrize(
    "text", ["", "ScramLoginModule required;", "PlainLoginModule required user_a=b", 'x {"s3cret"};']
)
def test_another_configuration_is_refused_without_showing_it(text):
    with pytest.raises(UnusableUsers) as refused:
        read_jaas(text)
    assert "s3cret" not in str(refused.value)


def test_a_file_has_a_line_for_each_user(tmp_path):
    path = tmp_path / "users"
    path.write_text("# people\nalice:a:b\n\nbob:x\n")
    assert read_users_file(str(path)) == {"alice": "a:b", "bob": "x"}


@pytest.mark.parametrize(
    ("text", "words"), [("alice", "line 1"), ("a:s3cret\na:s3cret", "line 2: a occurs twice"), (":s3cret", "line 1")]
)
def test_a_wrong_line_is_refused_by_its_number(tmp_path, text, words):
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(UnusableUsers, match=words) as refused:
        read_users_file(str(path))
    assert "s3cret" not in str(refused.value)


def test_passwords_are_verified_and_not_kept():
    passwords = Passwords({"alice": "s3cret"})
    assert passwords.verify("alice", "s3cret")
    assert not passwords.verify("alice", "S3cret")
    assert not passwords.verify("bob", "s3cret")
    assert "s3cret" not in repr(vars(passwords))

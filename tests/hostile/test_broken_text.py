"""Strings that are not UTF-8, or too long for the response they would be part of, are the fault of their own request only.

Kafka replaces each malformed sequence by U+FFFD, which takes three bytes. A response that the longer string does not fit in is
never sent, and its client waits for ever. Here the connection closes, or the request is refused.
"""

import contextlib

import pytest

from tests.hostile.honest_member import HonestMember
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection, ConnectionClosed, encode

UNKNOWN_SERVER_ERROR = -1
GROWS_TOO_LONG = b"\xff" * 11_000
"""33,000 bytes of UTF-8 after each byte was replaced; a string has at most 32,767."""
STILL_FITS = b"\xff" * 10_000
JOIN = {
    "session_timeout_ms": 60_000,
    "rebalance_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def bystanders(server):
    """Members of other groups, who are served before, during and after the test, by a server that logs no bug."""
    with contextlib.ExitStack() as members:
        everybody = [members.enter_context(HonestMember(server.bootstrap)) for _ in range(5)]
        yield everybody
        for member in everybody:
            member.is_served()
    assert "Traceback" not in server.log
    assert "_failed" not in server.log


def garbled(api: str, version: int, values: dict, name: bytes) -> bytes:
    """The request's body, in which `name` stands where `values` say `NAME`."""
    placeholder = "N" * len(name)
    body = encode(f"{api}Request", version, {key: _filled(value, placeholder) for key, value in values.items()})
    assert placeholder.encode() in body
    return body.replace(placeholder.encode(), name)


def _filled(value, placeholder):
    if isinstance(value, list):
        return [_filled(each, placeholder) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, placeholder) for key, each in value.items()}
    return placeholder if value == "NAME" else value


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        ("DescribeGroups", 4, {"groups": ["NAME"]}),
        ("DescribeGroups", 5, {"groups": ["NAME"]}),
        ("FindCoordinator", 4, {"coordinator_keys": ["NAME"]}),
        ("Metadata", 4, {"topics": [{"name": "NAME"}]}),
        ("DeleteGroups", 2, {"groups_names": ["NAME"]}),
        ("JoinGroup", 5, {"group_id": "NAME", **JOIN}),
    ],
)
def test_a_name_that_grows_too_long_when_it_is_repaired_closes_its_connection(server, bystanders, api, version, values):
    with Connection(server.bootstrap) as link, pytest.raises(ConnectionClosed):
        link.send_body(api, version, garbled(api, version, values, GROWS_TOO_LONG))
        link.receive()


def test_a_name_that_is_not_utf_8_is_answered_with_replacement_characters_as_in_kafka(server, bystanders):
    with Connection(server.bootstrap) as link:
        link.send_body("DescribeGroups", 4, garbled("DescribeGroups", 4, {"groups": ["NAME"]}, STILL_FITS))
        assert link.receive()["groups"][0]["group_id"] == "\ufffd" * 10_000


@pytest.mark.parametrize("version", [3, 5, 9])
def test_a_client_id_that_leaves_no_room_for_a_member_id_cannot_join_as_in_kafka(server, bystanders, version):
    """Others in the group join as if nothing had happened."""
    group = f"long-client-id-{version}"
    with Connection(server.bootstrap, "x" * 32_760) as link:
        answer = link.call("JoinGroup", version, group_id=group, member_id="", **JOIN)
        assert answer["error_code"] == UNKNOWN_SERVER_ERROR
    with Connection(server.bootstrap) as link:
        assert link.call("JoinGroup", 3, group_id=group, member_id="", **JOIN)["error_code"] == 0


def test_a_text_that_the_server_composes_from_a_long_name_is_cut(server, bystanders):
    """A name of the largest size is quoted in the error text, which is then longer than any string may be."""
    with Connection(server.bootstrap) as link:
        answer = link.call("ConsumerGroupDescribe", 0, group_ids=["g" * 32_767])
        assert len(answer["groups"][0]["error_message"] or "") < 32_767
        assert answer["groups"][0]["error_code"] != 0


def test_pipelined_requests_around_one_without_an_encodable_response_are_answered(server, bystanders):
    with Connection(server.bootstrap) as link:
        link.send("ApiVersions", 0, {})
        link.send("StreamsGroupDescribe", 0, {"group_ids": ["g" * 32_767]})
        link.send("Heartbeat", 4, {"group_id": "g", "member_id": "m"})
        assert link.receive()["error_code"] == 0
        assert link.receive()["groups"]
        assert link.receive()["error_code"] == 25

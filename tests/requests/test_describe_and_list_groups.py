"""DescribeGroups and ListGroups over several shards: one response, in the shape of each version."""

import pytest

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeGroupsRequest, ListGroupsRequest
from coordinator.requests import describe_groups, list_groups
from tests.groups.harness import GroupHarness, SentRequest

ALL_GROUP_OPERATIONS = 3400


class TwoShards:
    """A small router: groups whose name starts with "a" live on the first shard."""

    def __init__(self):
        self.shards = [GroupHarness(), GroupHarness()]
        self.groups = self

    def shard_of(self, group_id):
        return self.shards[not group_id.startswith("a")]

    def gather(self, view, exchange, combine):
        exchange.answer(combine([view(shard.groups, shard.now_ms) for shard in self.shards]))

    def gather_by_group(self, group_ids, function, exchange, combine, *, refused):
        parts = []
        for shard in self.shards:
            ids = [group_id for group_id in group_ids if self.shard_of(group_id) is shard]
            if ids:
                parts.append(function(shard.groups, ids, exchange, shard.now_ms).reply)
        exchange.answer(combine(parts))

    def ask(self, api, request, version):
        asked = SentRequest(api.API, version, "client", "/127.0.0.1", "")
        asked.request = request
        api.handle(self, asked)
        return asked.reply


@pytest.fixture
def server():
    server = TwoShards()
    for group_id in ("a1", "b1"):
        server.shard_of(group_id).stable(group_id, members=1)
    server.shard_of("a2").join("a2")
    return server


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_the_order_of_the_request_also_twice(server, version):
    reply = server.ask(describe_groups, DescribeGroupsRequest(groups=["b1", "nope", "a1", "b1", ""]), version)
    assert [(group.group_id, group.group_state) for group in reply.groups] == [
        ("b1", "Stable"), ("nope", "Dead"), ("a1", "Stable"), ("b1", "Stable"), ("", "Dead"),
    ]  # fmt: skip
    unknown = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert [group.error_code for group in reply.groups] == [0, unknown, 0, 0, unknown]
    assert {group.authorized_operations for group in reply.groups} == {-(2**31)}


@pytest.mark.parametrize("version", [3, 5, 6])
def test_authorized_operations_are_sent_for_groups_without_an_error(server, version):
    request = DescribeGroupsRequest(groups=["a1", "nope"], include_authorized_operations=True)
    reply = server.ask(describe_groups, request, version)
    of_unknown = -(2**31) if version >= 6 else ALL_GROUP_OPERATIONS
    assert [group.authorized_operations for group in reply.groups] == [ALL_GROUP_OPERATIONS, of_unknown]


def test_a_request_without_groups_describes_none(server):
    assert server.ask(describe_groups, DescribeGroupsRequest(groups=[]), 6).groups == []


@pytest.mark.parametrize("version", range(6))
def test_the_groups_of_all_shards_are_listed(server, version):
    reply = server.ask(list_groups, ListGroupsRequest(), version)
    assert reply.error_code == 0
    assert sorted((group.group_id, group.protocol_type) for group in reply.groups) == [
        ("a1", "consumer"), ("a2", ""), ("b1", "consumer"),
    ]  # fmt: skip
    states = {group.group_id: group.group_state for group in reply.groups}
    assert states == dict.fromkeys(states, "") if version < 4 else {"a1": "Stable", "a2": "Empty", "b1": "Stable"}
    assert {group.group_type for group in reply.groups} == ({"classic"} if version >= 5 else {""})


def test_filters_are_taken_from_the_request(server):
    reply = server.ask(list_groups, ListGroupsRequest(["EMPTY"], ["Classic"]), 5)
    assert [group.group_id for group in reply.groups] == ["a2"]


def test_a_refusal_names_every_requested_group():
    error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    described = describe_groups.API.refusal(DescribeGroupsRequest(groups=["a", "b"]), error, 6)
    assert [(group.group_id, group.error_code) for group in described.groups] == [("a", 15), ("b", 15)]
    assert list_groups.API.refusal(ListGroupsRequest(), error, 5).error_code == 15

"""Steps of an action in one rule, conditions on the fields of a request, answers of one's own, and answers that are damaged."""

import asyncio
from itertools import product

import msgspec
import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetCommitRequest
from coordinator.rules import passage
from coordinator.rules.check import RefusedRule
from tests.rules.test_actions import commit, committed, errors
from tests.rules.world import joining_fields

REFUSED = {"error": "ILLEGAL_GENERATION"}
HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


async def pass_ms(world, duration_ms):
    await world.server.clock.advance(world.server.clock.monotonic_ms() + duration_ms, lambda: asyncio.sleep(0))


async def raw(client):
    """The bytes that arrive until the server closes."""
    async with asyncio.timeout(30):
        return await client._reader.read()


# --- steps in one rule ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [{"delay_ms": 500}, {"delay_ms": 500, "when": "after"}], ids=["before", "after"])
@pytest.mark.parametrize("api", ["OffsetCommit", "Heartbeat"])
async def test_an_error_is_answered_after_a_delay_and_the_request_has_no_effect(world, wait, api):
    client = await world.client()
    world.server.clock.stop()
    world.fault({"api": api}, REFUSED | wait)
    if api == "OffsetCommit":
        client.send(api, 7, commit(5))
    else:
        client.send(api, 4, **HEARTBEAT)
    await client.silent()
    await pass_ms(world, 499)
    await client.silent()
    await pass_ms(world, 1)
    response = await client.receive()
    assert (errors(response)["orders", 0] if api == "OffsetCommit" else response.error_code) == 22
    assert await committed(await world.client()) == -1


@pytest.mark.parametrize("hold", ["request", "answer"])
@pytest.mark.parametrize("outcome", [REFUSED, {"lose": "answer"}, {"coordinator": "moved"}, {"close": True}], ids=str)
@pytest.mark.parametrize("release", ["release", "clear"])
async def test_what_is_held_goes_on_to_the_other_steps_when_it_is_released_or_cleared(world, hold, outcome, release):
    client = await world.client()
    fault = world.fault({"api": "OffsetCommit"}, {"hold": hold, **outcome})
    client.send("OffsetCommit", 7, commit(5))
    assert await fault.changes.wait(lambda: len(fault.held) == 1, 10_000)
    await client.silent()
    has_effect = outcome in ({"lose": "answer"}, {"close": True})
    assert (await committed(await world.client()) == 5) is (has_effect and hold == "answer")
    _ = fault.release(None) if release == "release" else world.clear()
    if "lose" not in outcome:
        code = {"error": 22, "coordinator": 16, "close": 0}[next(iter(outcome))]
        assert errors(await client.receive()) == {("orders", 0): code}
    if not ({"error", "coordinator"} & outcome.keys()):
        await client.closed()
    assert (await committed(await world.client()) == 5) is has_effect


async def test_an_answer_that_cannot_be_made_closes_its_connection_and_no_other_request_is_left_waiting(
    world, monkeypatch
):
    fault = world.fault({"api": "Heartbeat"}, {"hold": "answer", "answer": {"ErrorCode": 27}}, until="cleared")
    clients = [await world.client() for _ in range(2)]
    for client in clients:
        client.send("Heartbeat", 4, **HEARTBEAT)
    assert await fault.changes.wait(lambda: len(fault.held) == 2, 10_000)

    def fail(*_arguments):
        monkeypatch.undo()
        raise ValueError("as a bug would")

    monkeypatch.setattr(passage, "change", fail)
    world.clear()
    await clients[0].closed()
    assert (await clients[1].receive()).error_code == 27


ALL = [
    {name: value for part in parts for name, value in part.items()}
    for parts in product(
        [{}, {"hold": "request"}, {"hold": "answer"}],
        [{}, {"delay_ms": 60_000}, {"delay_ms": 60_000, "when": "after"}],
        [
            {},
            REFUSED,
            {"coordinator": "moved"},
            {"lose": "request"},
            {"lose": "answer"},
            {"answer": {"ThrottleTimeMs": 1}},
        ],
        [{}, {"bytes_per_s": 1}, {"bytes_per_s": 1, "cut_after": 9}, {"flip_bits": 1, "close": True}],
    )
]


async def test_whatever_a_rule_does_each_client_is_answered_or_closed_when_it_is_cleared(world):
    world.server.clock.stop()
    count = 0
    for action in ALL:
        try:
            fault = world.fault({"api": "OffsetCommit"}, action)
        except msgspec.ValidationError:
            continue
        client, count = await world.client(), count + 1
        client.send("OffsetCommit", 7, commit(5))
        assert await fault.changes.wait(lambda fault=fault: fault.acted == 1, 10_000)
        world.clear()
        async with asyncio.timeout(30):
            found = await client._reader.read(4)
            assert bool(found) is ("lose" not in action), action
        client.close()
        assert not fault.held and not fault._delayed, action
    assert count > 100


@pytest.mark.parametrize("what", ["request", "answer"])
async def test_a_client_whose_requests_or_answers_are_held_and_lost_hears_nothing_until_the_rule_is_cleared(
    world, what
):
    """One-sided silence: the connection stays open, and other clients notice nothing."""
    silent, other = await world.client("silent"), await world.client()
    fault = world.fault({"client_id": "silent"}, {"hold": what, "lose": what}, until="cleared")
    silent.send("OffsetCommit", 7, commit(5))
    assert await fault.changes.wait(lambda: len(fault.held) == 1, 10_000)
    await silent.silent()
    assert await committed(other) == (5 if what == "answer" else -1)
    world.clear()
    await silent.closed()


async def test_a_rule_that_observes_counts_and_lets_the_rules_behind_it_act(world):
    client = await world.client()
    seen = world.fault({"api": "Heartbeat"}, {"observe": True}, until="cleared")
    world.fault({"api": "Heartbeat"}, REFUSED)
    codes = [(await client.call("Heartbeat", 4, **HEARTBEAT)).error_code for _ in range(2)]
    assert codes == [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]
    assert (seen.matched, seen.acted) == (2, 2)


async def test_a_probability_with_a_seed_chooses_the_same_requests_again(world):
    client = await world.client()

    async def chosen(seed):
        world.clear()
        world.fault({"api": "Heartbeat"}, REFUSED, until="cleared", probability=0.5, seed=seed)
        codes = [(await client.call("Heartbeat", 4, **HEARTBEAT)).error_code for _ in range(40)]
        return [code == ErrorCode.ILLEGAL_GENERATION for code in codes]

    first = await chosen(1)
    assert first == await chosen(1) != await chosen(2)
    assert 8 < sum(first) < 32


# --- what waits already -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "closes"),
    [
        ({"lose": "answer"}, True),
        ({"hold": "answer"}, False),
        ({"answer": {"ErrorCode": "REBALANCE_IN_PROGRESS"}}, False),
        ({"hold": "answer", "lose": "answer"}, True),
    ],
    ids=str,
)
async def test_a_rule_has_the_answer_of_a_join_that_was_parked_before_it_was_set(world, action, closes):
    leader, follower = await world.client(), await world.client()
    member_id, _ = await world.join(leader, "g")
    follower.send("JoinGroup", 3, **joining_fields("g"))
    await follower.silent()
    fault = world.fault({"api": "JoinGroup", "group": "g"}, action, in_progress=True)
    assert (fault.matched, fault.acted) == (1, 1)
    assert len((await leader.call("JoinGroup", 7, **joining_fields("g", member_id=member_id))).members) == 2
    if "hold" in action:
        assert await fault.changes.wait(lambda: len(fault.held) == 1, 10_000)
        await follower.silent()
        world.clear()
    if closes:
        await follower.closed()
    else:
        assert (await follower.receive()).error_code == (27 if "answer" in action else 0)


async def test_a_join_in_progress_is_forgotten_when_its_client_is_gone(world):
    leader, follower = await world.client(), await world.client()
    member_id, _ = await world.join(leader, "g")
    follower.send("JoinGroup", 3, **joining_fields("g"))
    await follower.silent()
    fault = world.fault({"api": "JoinGroup"}, {"hold": "answer"}, in_progress=True)
    await leader.call("JoinGroup", 7, **joining_fields("g", member_id=member_id))
    assert await fault.changes.wait(lambda: len(fault.held) == 1, 10_000)
    follower.close()
    assert await fault.changes.wait(lambda: not fault.held, 10_000)


# --- conditions on fields ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "is_met"),
    [
        ({"GenerationIdOrMemberEpoch": 3}, True),
        ({"GenerationIdOrMemberEpoch": {">": 3}}, False),
        ({"GenerationIdOrMemberEpoch": {">=": 3, "<": 4}}, True),
        ({"GenerationIdOrMemberEpoch": [1, 2, 3]}, True),
        ({"GroupInstanceId": None}, True),
        ({"GroupInstanceId": {"!=": None}}, False),
        ({"GroupInstanceId": {">": 1}}, None),
        ({"Topics[].Name": "ord*"}, True),
        ({"Topics[].Name": "event"}, False),
        ({"Topics[1].Name": "orders"}, False),
        ({"Topics[].Partitions[].CommittedOffset": {">": 6}}, True),
        ({"Topics[].Partitions[].CommittedOffset": {">": 7}}, False),
        ({"Topics[].Name": "events", "MemberId": "m"}, True),
        ({"Topics[].Name": "events", "MemberId": "n"}, False),
        ({"MemberEpoch": 3}, None),
        ({"Topics[].Nam": "orders"}, None),
        ({"Topics.Name": "orders"}, None),
        ({"MemberId[]": "m"}, None),
        ({"GenerationIdOrMemberEpoch": "three"}, None),
        ({"GenerationIdOrMemberEpoch": 2**31}, None),
        ({"MemberId": {"<": "m"}}, None),
        ({"Topics": "orders"}, None),
        ({"MemberId": "[m"}, None),
    ],
    ids=str,
)
async def test_a_request_matches_by_its_fields_in_kafkas_words(world, where, is_met):
    """None: the rule is refused, for no request can be so."""
    client = await world.client()
    if is_met is None:
        with pytest.raises(RefusedRule) as refused:
            world.fault({"api": "OffsetCommit", "where": where}, REFUSED)
        assert next(iter(where)).partition("[")[0] in refused.value.text
        return
    fault = world.fault({"api": "OffsetCommit", "where": where}, REFUSED)
    topic, part = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    topics = [topic("orders", partitions=[part(0, 5)]), topic("events", partitions=[part(0, 6), part(1, 7)])]
    fields = {"group_id": "g", "generation_id_or_member_epoch": 3, "member_id": "m", "topics": topics}
    await client.call("OffsetCommit", 7, **fields)
    assert fault.acted == is_met


async def test_a_full_heartbeat_differs_from_a_short_one_and_from_versions_without_the_field(world):
    client = await world.client()
    full = {"SubscribedTopicNames": {"!=": None}}
    fault = world.fault({"api": "ConsumerGroupHeartbeat", "where": full}, {"observe": True}, until="cleared")
    regex = world.fault({"where": {"SubscribedTopicRegex": None}}, {"observe": True}, until="cleared")
    joining = {"group_id": "c", "member_id": "m" * 22, "rebalance_timeout_ms": 1_000, "topic_partitions": []}
    joined = await client.call(
        "ConsumerGroupHeartbeat", 0, **joining | {"member_id": ""}, subscribed_topic_names=["orders"]
    )
    beating = {"group_id": "c", "member_id": joined.member_id, "member_epoch": joined.member_epoch}
    await client.call("ConsumerGroupHeartbeat", 0, **beating)
    await client.call("ConsumerGroupHeartbeat", 1, **beating)
    assert (fault.matched, regex.matched) == (1, 1)


async def test_a_principal_is_matched_by_a_glob(world):
    client = await world.client()
    for principal, acts in (("User:ANON*", 1), ("User:alice", 0)):
        fault = world.fault({"api": "Heartbeat", "principal": principal}, REFUSED)
        await client.call("Heartbeat", 4, **HEARTBEAT)
        assert fault.acted == acts


@pytest.mark.parametrize(
    ("match", "action", "reason"),
    [
        ({"api": "Heartbeat", "group": "[a"}, {"close": True}, 'nothing closes a "["'),
        ({"api": "Heartbeat"}, {"error": "ILLEGAL_GENERATION", "message": "x"}, "a message beside the error"),
        ({"api": "Heartbeat"}, {"answer": {"MemberEpoch": 1}}, "has the field MemberEpoch in its response"),
        ({"api": "Heartbeat"}, {"answer": {"ErrorCode": 2**15}}, "ErrorCode is int16, not 32768"),
        ({"api": "Heartbeat"}, {"answer": {"ErrorCode": "NO_SUCH"}}, "ErrorCode is int16"),
        (
            {"api": "OffsetCommit", "version": 7},
            {"answer": {"Topics": [{"Nam": "x"}]}},
            "has no Nam; it has Name, Partitions",
        ),
        ({"api": "JoinGroup"}, {"answer": {"Members[].Metadata": "%"}}, "Metadata is bytes in base64"),
        ({"api": "JoinGroup"}, {"answer": {"MemberId": "\u00e9" * 16_384}}, "MemberId has at most 32767 bytes"),
    ],
    ids=str,
)
async def test_a_rule_that_can_never_be_is_refused_with_the_reason(world, match, action, reason):
    with pytest.raises(RefusedRule) as refused:
        world.fault(match, action)
    assert reason in refused.value.text


@pytest.mark.parametrize("name", ["[[]a", "[!]a]", "[]a]", "a]"])
async def test_a_bracket_that_is_closed_or_quoted_is_no_mistake(world, name):
    world.fault({"api": "Heartbeat", "group": name}, {"close": True})


# --- answers of one's own ---------------------------------------------------------------------------------------------


async def test_fields_of_an_answer_replace_what_the_server_would_have_said_and_the_request_has_its_effect(world):
    client = await world.client()
    answer = {"Topics[].Partitions[].ErrorCode": "STALE_MEMBER_EPOCH", "ThrottleTimeMs": 7}
    world.fault({"api": "OffsetCommit"}, {"answer": answer})
    response = await client.call("OffsetCommit", 9, commit(5, partitions=(0, 1)))
    assert (errors(response), response.throttle_time_ms) == ({("orders", 0): 113, ("orders", 1): 113}, 7)
    assert await committed(client) == 5


async def test_an_answer_instead_is_all_of_the_rules_own_and_the_api_never_has_the_request(world):
    client = await world.client()
    answer = {
        "Topics": [{"Name": "made up", "Partitions": [{"PartitionIndex": 9}, {"PartitionIndex": 8, "ErrorCode": 3}]}]
    }
    world.fault({"api": "OffsetCommit"}, {"answer": answer, "instead": True})
    response = await client.call("OffsetCommit", 7, commit(5))
    assert errors(response) == {("made up", 9): 0, ("made up", 8): 3}
    assert await committed(client) == -1


@pytest.mark.parametrize(
    "answer", [{"ThrottleTimeMs": 5}, {"Topics": [{"TopicId": "AAAAAAAAAAAAAAAAAAAAAQ"}]}], ids=["field", "value"]
)
async def test_an_answer_leaves_versions_alone_that_lack_what_it_says(world, answer):
    client = await world.client()
    fault = world.fault({"api": "OffsetCommit"}, {"answer": answer}, until="cleared")
    assert errors(await client.call("OffsetCommit", 2, commit(5))) == {("orders", 0): 0}
    await client.call("OffsetCommit", 10, group_id="g")
    assert fault.matched == 1


async def test_an_assignment_of_ones_own_reaches_a_consumer(world):
    client, topic_id = await world.client(), world.server.topics.topic_id("orders")
    assigned = {"TopicPartitions": [{"TopicId": "AAAAAAAAAAAAAAAAAAAAAQ", "Partitions": [7]}]}
    world.fault({"api": "ConsumerGroupHeartbeat"}, {"answer": {"Assignment": assigned, "MemberEpoch": 9}})
    response = await client.call(
        "ConsumerGroupHeartbeat", 0, group_id="c", rebalance_timeout_ms=1_000, topic_partitions=[],
        subscribed_topic_names=["orders"],
    )  # fmt: skip
    [given] = response.assignment.topic_partitions
    assert (given.partitions, response.member_epoch) == ([7], 9)
    assert given.topic_id == bytes(15) + b"\x01" != topic_id


# --- damaged, slow ----------------------------------------------------------------------------------------------------


async def whole_answer(world):
    """The bytes of the answer that the rules below damage."""
    client = await world.client()
    world.fault({"api": "Heartbeat"}, {"close": True})
    client.send("Heartbeat", 4, **HEARTBEAT)
    return await raw(client)


async def test_an_answer_is_cut_after_so_many_bytes_and_the_connection_closes(world):
    whole = await whole_answer(world)
    for count in (1, 4, len(whole) - 1):
        client = await world.client()
        world.fault({"api": "Heartbeat"}, {"cut_after": count})
        client.send("Heartbeat", 4, **HEARTBEAT)
        client.send("Heartbeat", 4, **HEARTBEAT)
        assert await raw(client) == whole[:count]


async def test_bits_of_an_answer_are_flipped_behind_its_size_and_a_seed_chooses_them(world):
    whole, found = await whole_answer(world), []
    for seed in (1, 1, 2):
        client = await world.client()
        world.fault({"api": "Heartbeat"}, {"flip_bits": 3, "close": True}, seed=seed)
        client.send("Heartbeat", 4, **HEARTBEAT)
        found.append(await raw(client))
    wrong = int.from_bytes(found[0]) ^ int.from_bytes(whole)
    assert (len(found[0]), found[0][:4], wrong.bit_count()) == (len(whole), whole[:4], 3)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("size", [-1, 0, 5, 2**31 - 1])
async def test_an_answer_says_a_size_that_is_not_its_own(world, size):
    whole = await whole_answer(world)
    client = await world.client()
    world.fault({"api": "Heartbeat"}, {"size": size, "close": True})
    client.send("Heartbeat", 4, **HEARTBEAT)
    assert await raw(client) == size.to_bytes(4, signed=True) + whole[4:]


async def received(client, count):
    """Bytes that have arrived; at least this many do."""
    async with asyncio.timeout(30):
        data = await client._reader.readexactly(count)
    await client.silent()
    return data


async def test_a_slow_answer_leaves_in_pieces_and_the_next_one_behind_it(world):
    whole = await whole_answer(world)
    client = await world.client()
    world.server.clock.stop()
    world.fault({"api": "Heartbeat"}, {"bytes_per_s": 50})
    client.send("Heartbeat", 4, **HEARTBEAT)
    client.send("Heartbeat", 4, **HEARTBEAT)
    found = await received(client, 5)
    while len(found) < len(whole) - 5:
        await pass_ms(world, 99)
        await client.silent()
        await pass_ms(world, 1)
        found += await received(client, 5)
    await pass_ms(world, 100)
    async with asyncio.timeout(30):
        found += await client._reader.readexactly(2 * len(whole) - len(found))
    assert found == whole + whole[:4] + (2).to_bytes(4) + whole[8:]


async def test_the_rest_of_a_slow_answer_leaves_at_once_when_the_rule_is_cleared(world):
    whole = await whole_answer(world)
    client = await world.client()
    world.server.clock.stop()
    world.fault({"api": "Heartbeat"}, {"bytes_per_s": 1, "close": True})
    client.send("Heartbeat", 4, **HEARTBEAT)
    assert await received(client, 1) == whole[:1]
    world.clear()
    assert await raw(client) == whole[1:]


async def test_a_slow_answer_ends_with_its_connection(world):
    client = await world.client()
    fault = world.fault({"api": "Heartbeat"}, {"bytes_per_s": 10})
    client.send("Heartbeat", 4, **HEARTBEAT)
    await client._reader.readexactly(1)
    client.close()
    assert await fault.changes.wait(lambda: not fault._delayed, 10_000)

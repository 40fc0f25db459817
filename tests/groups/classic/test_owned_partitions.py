"""The group checks the partitions that its members claim to own (KIP-792)."""

import pytest

from coordinator.groups.classic.describe import details
from coordinator.protocol.subscription import KIP_792, Subscription, encode_subscription, parse_subscription
from tests.groups.harness import GroupHarness, subscription


def owning(*partitions, generation, version=3):
    return {"range": subscription(["t"], {"t": partitions}, generation, version)}


def rebalance_with_claims(h, leader_claim, follower_claim):
    """Rebalances a Stable group of two members with these claims; returns the leader's JoinGroup response."""
    leader, follower = list(h.group().members)
    h.join(member_id=leader, protocols=leader_claim)
    h.join(member_id=follower, protocols=follower_claim)
    reply = h.sent[-2].reply
    h.settle()
    return reply


def test_claims_of_the_last_generation_are_valid():
    h = GroupHarness()
    h.stable()
    rebalance_with_claims(h, owning(0, generation=1), owning(1, generation=1))
    assert h.group().claims is None
    assert h.facts_named("owned_partitions_wrong") == []


def test_claims_of_an_older_generation_are_stale():
    h = GroupHarness()
    _, follower = h.stable()
    rebalance_with_claims(h, owning(0, generation=1), owning(1, generation=1))
    rebalance_with_claims(h, owning(0, generation=2), owning(0, 1, generation=1))
    claims = h.group().claims
    assert claims.stale == ((follower, 1, (("t", 0), ("t", 1))),)
    assert (claims.stale_count, claims.contested_count) == (2, 0)
    assert h.facts_named("owned_partitions_wrong") == [
        {
            "group_id": "g", "generation": 3, "stale": 2, "contested": 0, "cleared": 0, "members": [follower],
        }
    ]  # fmt: skip


def test_claims_without_a_generation_or_of_a_future_one_are_stale():
    h = GroupHarness()
    h.stable()
    rebalance_with_claims(h, owning(0, generation=-1), owning(1, generation=77))
    assert h.group().claims.stale_count == 2


def test_claims_stay_valid_over_a_generation_that_was_never_assigned():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader, protocols=owning(0, generation=1))
    h.join(member_id=follower, protocols=owning(1, generation=1))
    assert h.group().generation == 2
    h.join(member_id=follower, protocols=owning(1, 2, generation=1))
    h.join(member_id=leader, protocols=owning(0, generation=2))
    assert h.group().generation == 3
    assert h.group().claims is None


def test_a_partition_with_two_claimants_is_contested():
    h = GroupHarness()
    leader, follower = h.stable()
    rebalance_with_claims(h, owning(0, 1, generation=1), owning(1, 2, generation=1))
    claims = h.group().claims
    assert claims.contested == (("t", 1, (leader, follower)),)
    assert (claims.stale_count, claims.contested_count) == (0, 1)


def test_version_1_claims_can_be_contested_but_not_stale():
    h = GroupHarness()
    h.stable()
    rebalance_with_claims(h, owning(0, generation=-1, version=1), owning(0, generation=-1, version=1))
    claims = h.group().claims
    assert (claims.stale_count, claims.contested_count) == (0, 1)


def from_old_client(*partitions, generation, assignor="cooperative-sticky"):
    """What a client before KIP-792 sends: the generation is in the user data, as Java writes it."""
    user_data = generation.to_bytes(4, "big", signed=True)
    return {assignor: encode_subscription(Subscription(("t",), user_data, {"t": partitions}, -1, None, 1))}


def test_the_generation_in_the_user_data_of_cooperative_sticky_is_used_where_the_field_is_missing():
    h = GroupHarness()
    _, follower = h.stable(protocols={"cooperative-sticky": subscription()})
    rebalance_with_claims(h, from_old_client(0, generation=1), from_old_client(1, generation=1))
    assert h.group().claims is None
    rebalance_with_claims(h, from_old_client(0, 1, generation=2), from_old_client(1, generation=1))
    claims = h.group().claims
    assert claims.stale == ((follower, 1, (("t", 1),)),)
    assert claims.contested == (), "the leader's claim is the only valid one"


def test_the_field_counts_where_user_data_say_otherwise():
    h = GroupHarness()
    h.stable(protocols={"cooperative-sticky": subscription()})
    claim = Subscription(("t",), (0).to_bytes(4), {"t": (0,)}, 1, None, 2)
    stale = Subscription(("t",), (0).to_bytes(4), {"t": (1,)}, -1, None, 2)
    rebalance_with_claims(
        h, {"cooperative-sticky": encode_subscription(claim)}, {"cooperative-sticky": encode_subscription(stale)}
    )
    assert [each.generation_id for each in h.group().claims.stale] == [0]


@pytest.mark.parametrize(
    "claim",
    [from_old_client(1, generation=0, assignor="my-cooperative"), from_old_client(1, generation=-1)],
    ids=["another assignor", "a member that has had no assignment"],
)
def test_no_other_user_data_have_a_generation(claim):
    h = GroupHarness()
    (assignor,) = claim
    h.stable(protocols={assignor: subscription()})
    rebalance_with_claims(h, from_old_client(0, generation=1, assignor=assignor), claim)
    assert h.group().claims is None


IN_KIP_ORDER = encode_subscription(Subscription(("t",), None, {"t": (1,)}, 0, None, 2, KIP_792))


def test_the_order_of_kip_792_is_read_on_a_listener_of_its_dialect():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader, protocols=owning(0, generation=1), version=8)
    reply = h.join(member_id=follower, protocols={"range": IN_KIP_ORDER}, version=8, dialect=KIP_792)
    assert h.group().claims.stale == ((follower, 0, (("t", 1),)),)
    assert h.facts_named("subscriptions_in_kip_order") == []
    received = {each.member_id: each.metadata for each in h.sent[-2].reply.members}
    assert received[follower] == IN_KIP_ORDER, "members pass their bytes to each other"
    assert reply.ok


@pytest.mark.parametrize("dialect", [None, "client-side-assignment"])
def test_the_order_of_kip_792_is_counted_on_other_listeners(dialect):
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader, protocols=owning(0, generation=1))
    h.join(member_id=follower, protocols={"range": IN_KIP_ORDER}, dialect=dialect)
    assert h.group().claims is None
    assert h.group().subscribed_topics == {"t"}
    assert h.facts_named("subscriptions_in_kip_order") == [
        {"group_id": "g", "generation": 2, "subscriptions": 1, "members": [follower]}
    ]
    assert details(h.groups, h.group())["claims"] == {"stale": 0, "contested": 0, "subscriptions_in_kip_order": 1}


def test_a_partition_that_one_member_lists_twice_is_not_contested():
    h = GroupHarness()
    h.stable()
    rebalance_with_claims(h, owning(0, 0, generation=1), owning(1, generation=1))
    assert h.group().claims is None


def test_claim_counts_accumulate_and_findings_cover_the_current_generation():
    h = GroupHarness()
    h.stable()
    rebalance_with_claims(h, owning(0, generation=0), owning(0, generation=1))
    rebalance_with_claims(h, owning(0, generation=0), owning(1, generation=2))
    assert (h.group().claims_stale, h.group().claims_contested) == (2, 0)
    assert h.group().claims.generation == 3
    rebalance_with_claims(h, owning(0, generation=3), owning(1, generation=3))
    assert h.group().claims is None
    assert h.group().claims_stale == 2


def test_by_default_the_leader_receives_stale_claims_unchanged():
    h = GroupHarness()
    _, follower = h.stable()
    stale = owning(0, generation=0)
    reply = rebalance_with_claims(h, owning(0, generation=1), stale)
    assert {member.member_id: member.metadata for member in reply.members}[follower] == stale["range"]


def test_stale_claims_can_be_cleared_in_the_metadata_for_the_leader():
    h = GroupHarness(group_classic_sanitize_owned_partitions=True)
    leader, follower = h.stable()
    fresh, stale = owning(0, generation=1), owning(0, 2, generation=0)
    h.join(member_id=leader, protocols=fresh)
    h.join(member_id=follower, protocols=stale)
    for reply in (h.sent[-2].reply, h.join(member_id=leader, protocols=fresh).reply):
        received = {member.member_id: member.metadata for member in reply.members}
        assert received[leader] == fresh["range"]
        cleared = parse_subscription(received[follower])
        assert (cleared.topics, cleared.owned, cleared.generation_id) == (("t",), {}, -1)
    h.settle()
    stored = {member.member_id: member.subscription for member in h.group().stored.members}
    assert stored[follower] == stale["range"], "the log keeps the unchanged metadata"
    assert h.facts_named("owned_partitions_wrong")[-1]["cleared"] == 1


def test_metadata_of_other_protocol_types_is_not_parsed():
    h = GroupHarness()
    h.stable(protocol_type="connect", protocols={"range": b"\x00"})
    assert h.group().claims is None
    assert h.group().subscribed_topics is None
    assert not h.group().is_subscribed_to("t")


def test_a_group_knows_the_subscribed_topics_of_its_generation():
    h = GroupHarness()
    h.stable(protocols={"range": subscription(["a", "b"])})
    assert h.group().subscribed_topics == {"a", "b"}
    h.restart()
    assert h.group().subscribed_topics == {"a", "b"}
    assert h.group().is_subscribed_to("a")
    assert not h.group().is_subscribed_to("c")


def test_every_version_of_a_subscription_is_parsed():
    h = GroupHarness()
    for version in range(4):
        h.join_new_member(protocols={"range": subscription([f"v{version}"], version=version)})
    newer = b"\x00\x63" + subscription(["newer"])[2:] + b"unknown fields"
    h.join_new_member(protocols={"range": newer})
    h.advance(0)
    assert h.group().subscribed_topics == {"v0", "v1", "v2", "v3", "newer"}


def test_topics_are_parsed_even_if_the_rest_of_the_subscription_is_malformed():
    h = GroupHarness()
    h.join_new_member(protocols={"range": subscription(["a"], {"t": [1]}, 1)[:-9]})
    h.advance(0)
    assert h.group().subscribed_topics == {"a"}


def test_a_member_with_unreadable_metadata_counts_as_subscribed_to_everything():
    h = GroupHarness()
    h.stable(members=1)
    for metadata in (b"", b"\x00", b"\xff\xff", b"\x00\x01\x00\x00\x00\x05"):
        h.join_new_member(protocols={"range": metadata})
        h.settle()
        assert h.group().subscribed_topics is None
        assert h.group().is_subscribed_to("anything")
        h.restart()
        assert h.group().subscribed_topics is None


def test_an_empty_group_subscribes_to_nothing():
    h = GroupHarness()
    h.leave("g", *h.stable())
    assert not h.group().is_subscribed_to("t")
    h.restart()
    assert not h.group().is_subscribed_to("t")

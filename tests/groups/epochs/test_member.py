"""A member of a group with epochs says how far it is, and since when it has what it holds."""

from dataclasses import replace

import pytest

from coordinator.groups.consumer.member import ConsumerMember, MemberState
from coordinator.groups.epochs.member import NOT_ASSIGNED_YET, assigned_at, is_unassigned, unassigned
from coordinator.groups.held_bytes import MEMBER_BYTES

HELD = {"0": {0: 2, 1: 3}, "1": {7: 300}}


@pytest.mark.parametrize(("epoch", "is_joining"), [(-2, True), (-1, True), (0, True), (1, False), (300, False)])
def test_a_member_joins_while_it_has_no_epoch(epoch, is_joining):
    assert ConsumerMember(member_id="m", member_epoch=epoch).is_joining == is_joining


@pytest.mark.parametrize("epoch", [1, 300])
def test_a_member_is_reconciled_to_a_target_whose_epoch_and_holdings_it_has(epoch):
    member = ConsumerMember(member_id="m", member_epoch=epoch)
    targets = [epoch - 1, int(str(epoch)), epoch + 1]
    assert [member.is_reconciled_to(each) for each in targets] == [False, True, False]
    waiting = ConsumerMember(member_id="m", member_epoch=epoch, state=MemberState.UNRELEASED_PARTITIONS)
    assert not waiting.is_reconciled_to(epoch)


def test_what_a_successor_takes_over_gets_its_assignment_epoch_when_the_successor_joins():
    waiting = unassigned(HELD)
    assert waiting == {"0": {0: NOT_ASSIGNED_YET, 1: NOT_ASSIGNED_YET}, "1": {7: NOT_ASSIGNED_YET}}
    assert assigned_at(waiting, 5) == {"0": {0: 5, 1: 5}, "1": {7: 5}}


def test_what_has_an_assignment_epoch_keeps_it():
    assert assigned_at(HELD, 5) == HELD
    assert assigned_at({"0": {0: 2, 1: NOT_ASSIGNED_YET}, "1": {7: 3}}, 5) == {"0": {0: 2, 1: 5}, "1": {7: 3}}


@pytest.mark.parametrize(
    ("held", "some"),
    [({}, False), (HELD, False), (unassigned(HELD), True), (HELD | {"1": {7: 3, 8: NOT_ASSIGNED_YET}}, True)],
    ids=["nothing", "none", "all", "one"],
)
def test_holdings_are_unassigned_if_one_of_them_is(held, some):
    assert is_unassigned(held) == some


def test_a_member_is_charged_for_each_letter_of_what_it_says():
    texts = {"member_id": 2_047, "instance_id": 1_023, "rack_id": 511, "client_id": 255, "regex": 127}
    member = ConsumerMember(**{field: "x" * letters for field, letters in texts.items()})
    assert member.held_bytes == MEMBER_BYTES + sum(texts.values())
    assert replace(member, instance_id=None, rack_id=None).held_bytes == MEMBER_BYTES + 2_047 + 255 + 127

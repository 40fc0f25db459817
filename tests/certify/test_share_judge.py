"""The judge of share consumers: what each promise means, and what it does not accuse a right client of."""

import pytest

from coordinator_testing.certify.case import ProcessRun
from coordinator_testing.certify.event import Allows
from coordinator_testing.certify.judge import SHARE_PROMISES, judge
from coordinator_testing.certify.judge.share import REJECT, RELEASE, RENEW
from tests.certify.cases import A, B, Case, ms, shared

LOST, TWICE, EARLY, UNHELD, STALL, FATAL, ENDED = SHARE_PROMISES


def outcomes(case: Case) -> dict[str, str]:
    """Those that are not kept."""
    return {each.promise: each.outcome for each in judge(case.evidence()) if each.outcome != "kept"}


def test_a_right_share_consumer_breaks_no_promise():
    found = judge(shared().evidence())
    assert {each.promise: each.outcome for each in found} == dict.fromkeys(SHARE_PROMISES, "kept")


def test_a_record_that_was_accepted_and_has_no_copy_is_lost():
    case = shared()
    case.outputs.pop()
    finding = case.finding(LOST)
    assert (finding.outcome, finding.evidence) == ("broken", ("in-0@9: accepted by entry 9 at 127.0.0.1:4001",))


def test_a_record_that_was_rejected_is_not_lost():
    case = shared()
    case.outputs.pop()
    case.entries[-1].request["topics"][0]["partitions"][0]["acknowledgement_batches"] = [
        {"first_offset": 4, "last_offset": 9, "acknowledge_types": [1, 1, 1, 1, 1, REJECT]}
    ]
    assert outcomes(case) == {}


def test_a_record_that_was_given_back_until_it_came_no_more_is_lost():
    case = Case(protocol="share").acquire(4, A, 0, 8).copy(5, A, *range(9)).acknowledge(6, A, 0, 8)
    for delivery in range(1, 6):
        case.acquire(10 + delivery, A, 9, 9, delivery=delivery).acknowledge(10.5 + delivery, A, 9, 9, RELEASE)
    finding = case.finding(LOST)
    assert (finding.outcome, finding.evidence) == ("broken", ("in-0@9: delivered 5 times",))


def test_a_record_that_each_of_its_processes_was_killed_with_is_not_lost():
    case = Case(protocol="share").acquire(4, B, 0, 8).copy(5, B, *range(9)).acknowledge(6, B, 0, 8)
    case.acquire(11, A, 9, 9)
    assert case.finding(LOST).outcome == "broken"
    case.instances[0].runs[0] = ProcessRun(pid=1, started_ms=ms(0), ended_ms=ms(12), ended_by="stage", exit_code=-9)
    assert case.finding(LOST).outcome == "kept"


def test_records_that_come_again_after_they_were_accepted_are_delivered_twice():
    finding = shared().acquire(20, A, 3, 3, delivery=2).finding(TWICE)
    assert finding.outcome == "broken"
    assert finding.evidence == ("in-0@3: entry 9 at 127.0.0.1:4000, accepted by entry 6 at 127.0.0.1:4000",)


def test_two_processes_do_not_hold_a_record_at_the_same_time():
    assert shared().acquire(13.2, A, 8, 9, delivery=2).finding(TWICE).outcome == "kept"
    assert shared().acquire(13.2, A, 8, 9, outcome="lost").finding(TWICE).outcome == "kept"
    assert shared(outages=[(ms(11), ms(12))]).acquire(13.2, A, 8, 9).finding(TWICE).outcome == "kept"
    finding = shared().acquire(13.2, A, 8, 9).finding(TWICE)
    assert (finding.outcome, finding.count) == ("broken", 2)


def test_a_late_acknowledgement_is_no_second_delivery():
    """Kafka answers one of a record before the start of the share partition without an error."""
    assert outcomes(shared().acknowledge(15.5, A, 4, 7)) == {UNHELD: "broken"}
    case = Case(protocol="share").acquire(4, A, 0, 9).acquire(8, B, 0, 9, delivery=2).copy(9, B, *range(10))
    case.acknowledge(10, B, 0, 9).copy(11, A, *range(10)).acknowledge(12, A, 0, 9)
    assert outcomes(case) == {}


def test_a_record_may_be_delivered_as_often_as_the_limit_says():
    case = Case(protocol="share", delivery_limit=2).acquire(4, A, 0, 9).acquire(5, A, 0, 9, delivery=2)
    assert case.finding(TWICE).outcome == "kept"
    assert case.acquire(6, A, 0, 9, delivery=3).finding(TWICE).outcome == "broken"


def test_a_process_that_got_a_record_once_processes_it_once():
    assert shared().copy(14.5, B, 9).finding(TWICE).outcome == "broken"
    finding = shared().acquire(14.1, B, 9, 9, delivery=2).copy(14.5, B, 9).finding(TWICE)
    assert (finding.outcome, finding.count) == ("kept", 1)


def test_a_record_is_accepted_after_it_was_processed():
    case = Case(protocol="share").acquire(4, A, 0, 9).acknowledge(5, A, 0, 9).copy(6, A, *range(10))
    finding = case.finding(EARLY)
    assert (finding.outcome, finding.count) == ("broken", 10)


def test_an_acknowledgement_that_was_refused_accepts_nothing():
    case = Case(protocol="share").acquire(4, A, 0, 9).acknowledge(5, A, 0, 9, error="INVALID_RECORD_STATE")
    case.copy(6, B, *range(10)).acquire(5.5, B, 0, 9, delivery=2).acknowledge(7, B, 0, 9)
    assert outcomes(case) == {}


@pytest.mark.parametrize(
    ("first", "last", "why"),
    [(8, 9, "which the process was not sent"), (0, 0, "after entry 6 at 127.0.0.1:4000 had done so")],
)
def test_a_process_acknowledges_only_what_it_holds(first, last, why):
    finding = shared().acknowledge(16, A, first, last, error="INVALID_RECORD_STATE").finding(UNHELD)
    assert finding.outcome == "broken"
    assert all(each.endswith(why) for each in finding.evidence)


def test_an_acknowledgement_may_come_after_the_lock_and_again_if_it_was_not_answered():
    case = Case(protocol="share").acquire(4, A, 0, 9).copy(5, A, *range(10)).acknowledge(6, A, 0, 9, outcome="lost")
    case.acknowledge(7, A, 0, 9, error="NOT_LEADER_OR_FOLLOWER").acknowledge(8, A, 0, 9, RENEW).acknowledge(9, A, 0, 9)
    assert case.finding(UNHELD).outcome == "kept"
    assert case.acknowledge(10, A, 0, 9).finding(UNHELD).outcome == "broken"


def test_a_record_may_be_acknowledged_as_often_as_its_process_was_sent_it():
    """The lock ended while it worked, and the record came to the same process again, before it had acknowledged."""
    case = Case(protocol="share").acquire(4, A, 0, 9).acquire(8, A, 0, 9, delivery=2).copy(9, A, *range(10))
    case.acknowledge(10, A, 0, 9).copy(11, A, *range(10)).acknowledge(12, A, 0, 9, error="INVALID_RECORD_STATE")
    assert outcomes(case) == {}
    assert case.acknowledge(13, A, 0, 9, error="INVALID_RECORD_STATE").finding(UNHELD).outcome == "broken"


def test_a_process_that_starts_again_does_not_hold_what_the_one_before_was_sent():
    case = Case(protocol="share").acquire(4, A, 0, 9)
    case.instances[0].runs.append(ProcessRun(pid=300, started_ms=ms(10)))
    assert case.acknowledge(11, A, 0, 9).finding(UNHELD).outcome == "broken"


def test_a_partition_of_which_nothing_is_settled_stands_still():
    case = Case(protocol="share", allows=Allows(stall_s=5)).acquire(4, A, 0, 0).acknowledge(5, A, 0, 0)
    case.acquire(11, A, 1, 9).acknowledge(25, A, 1, 9)
    finding = case.finding(STALL)
    assert (finding.outcome, finding.count) == ("broken", 15)
    assert finding.evidence[0] == "in-0: 15.0 s from +0.0 s on: 9 records were delivered, 9 accepted"
    case = Case(protocol="share", allows=Allows(stall_s=5)).acquire(4, A, 0, 9).acknowledge(25, A, 0, 9)
    assert case.finding(STALL).outcome == "broken", "delivered before the event, and settled long after it"


def test_a_program_that_never_settles_a_record_is_found_before_the_event():
    case = Case(protocol="share", provoked_ms=None, settled_ms=None).acquire(4, A, 0, 9)
    assert case.finding(STALL).outcome == "broken"
    assert case.acknowledge(5, A, 0, 9).finding(STALL).outcome == "not judged"


def test_a_member_that_was_removed_joins_again_with_its_id():
    removed = {"member_id": A, "member_epoch": 3}
    case = shared().entry(16, A, "ShareGroupHeartbeat", removed, {"error": "UNKNOWN_MEMBER_ID"})
    again = {"member_id": A, "member_epoch": 0}
    case.entry(17, A, "ShareGroupHeartbeat", again, {"error": None}).entry(
        26, A, "ShareGroupHeartbeat", {"member_id": A, "member_epoch": 4}, {"error": None}
    )
    assert case.finding(FATAL).outcome == "kept"
    assert case.entry(27, A, "ShareGroupHeartbeat", removed, {"error": None}).finding(FATAL).outcome == "kept"
    case = shared().entry(16, A, "ShareGroupHeartbeat", removed, {"error": "UNKNOWN_MEMBER_ID"})
    assert case.entry(27, A, "ShareGroupHeartbeat", removed, {"error": None}).finding(FATAL).outcome == "broken"


def test_without_a_testimony_only_what_the_protocol_shows_is_judged():
    assert outcomes(shared(copies=False)) == dict.fromkeys((LOST, TWICE, EARLY), "not judged")

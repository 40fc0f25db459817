"""The judge: what each promise means, and what it does not accuse a right client of."""

import signal

import pytest

from coordinator_testing.certify.case import OutputRecord, ProcessRun, Statement
from coordinator_testing.certify.event import Allows
from coordinator_testing.certify.judge import PROMISES, judge
from tests.certify.cases import TOPIC, A, B, Case, ms, right, truncated

LOST, TWICE, EARLY, BACK, OTHERS, TWO, STALL, REBALANCES, FATAL, ENDED = PROMISES
LEADER_AGAIN = "the leader joins again"


def test_a_right_program_breaks_no_promise():
    assert {each.promise: each.outcome for each in judge(right().evidence())} == dict.fromkeys(PROMISES, "kept")


def test_an_event_that_is_not_applicable_is_not_judged():
    found = judge(right(not_applicable="the program has no static members").evidence())
    assert {each.outcome for each in found} == {"not judged"}


def test_without_an_output_topic_nothing_is_kept_that_the_protocol_cannot_show():
    found = {each.promise: each.outcome for each in judge(right(copies=False).evidence())}
    assert found == dict.fromkeys(PROMISES, "kept") | dict.fromkeys((LOST, TWICE, EARLY), "not judged")


# --- records lost -----------------------------------------------------------------------------------------------------


def test_a_committed_record_without_a_copy_is_lost():
    case = right()
    case.outputs.pop()
    finding = case.finding(LOST)
    assert (finding.outcome, finding.evidence) == ("broken", ("in-0@9",))


def test_a_record_without_a_copy_that_is_not_committed_is_not_lost():
    case = right()
    case.outputs.pop()
    case.fields["committed"] = {0: 9}
    assert case.finding(LOST).outcome == "kept"


def test_without_an_output_topic_a_committed_record_that_nobody_was_sent_is_lost():
    case = Case(copies=False).position(1, A, -1).fetch(2, A, 0, 3).fetch(3, A, 6, 9).commit(12, A, 10)
    finding = case.finding(LOST)
    assert (finding.outcome, finding.evidence) == ("broken", ("in-0@4", "in-0@5"))


def test_records_that_an_administrator_wants_again_and_nobody_is_sent_again_are_skipped():
    case = right(resets=[(ms(20), {0: 3})])
    case.instances[1].runs.append(ProcessRun(pid=300, started_ms=ms(21)))
    assert case.fetch(22, B, 3, 9).finding(LOST).outcome == "kept"
    case.entries.pop()
    finding = case.fetch(22, B, 6, 9).finding(LOST)
    assert finding.text == "3 records were skipped after an administrator had reset their offset"
    assert finding.evidence == ("in-0@3", "in-0@4", "in-0@5")


def test_records_of_a_topic_that_was_deleted_are_lost_if_they_have_no_copy():
    case = right()
    case.inputs[0] = [each._replace(life=1) for each in case.inputs[0]]
    case.inputs[0].insert(0, case.inputs[0][0]._replace(life=0, number=77))
    case.fields["recreated_ms"] = [ms(0.5)]
    assert case.finding(LOST).evidence == ("in-0@0",)


# --- delivered twice --------------------------------------------------------------------------------------------------


def test_what_was_not_committed_may_be_delivered_again_to_the_next_owner():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 5).copy(5, A, 0, 1, 2, 3, 4, 5)
    case.commit(6, A, 2).sync(12, B, 0).position(13, B, 2).fetch(14, B, 2, 9).copy(15, B, 2, 3, 4, 5, 6, 7, 8, 9)
    finding = case.commit(16, B, 10).finding(TWICE)
    assert (finding.outcome, finding.count) == ("kept", 4)


def test_a_zombie_may_finish_what_it_had_polled():
    case = right().copy(20, A, 3)
    assert case.finding(TWICE).outcome == "kept"


def test_whoever_reads_again_what_was_committed_before_it_began_breaks_the_promise():
    case = right().fetch(17, B, 0, 3)
    finding = case.finding(TWICE)
    assert finding.outcome == "broken"
    assert finding.evidence == (f"in-0@3: entry {case.entries[-1].number} at {B}",)


def test_whoever_was_given_no_committed_offset_may_begin_where_it_likes():
    case = right()
    case.join(16.5, B).sync(16.6, B, 0).position(16.7, B, -1).fetch(17, B, 0, 3)
    assert case.finding(TWICE).outcome == "kept"


def test_a_process_whose_position_nothing_moved_copies_a_record_once():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(10, A, 0, 9).copy(12, A, *range(10))
    finding = case.commit(13, A, 10).copy(15, A, 9).finding(TWICE)
    assert (finding.outcome, finding.count) == ("broken", 1)


def test_a_process_that_joined_again_may_copy_again_what_it_had_polled():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(10, A, 0, 9).copy(12, A, *range(10))
    case.commit(13, A, 10).join(14, A).copy(15, A, 9)
    assert case.finding(TWICE).outcome == "kept"


def test_what_was_not_committed_may_be_processed_again_by_the_same_process():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(10, A, 0, 9).copy(12, A, *range(10))
    case.commit(13, A, 10, error="COORDINATOR_NOT_AVAILABLE").copy(15, A, *range(10)).commit(16, A, 10)
    assert case.finding(TWICE).outcome == "kept"


def test_a_copy_may_be_repeated_whose_request_was_not_answered():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(10, A, 0, 9).copy(12, A, *range(10))
    case.commit(13, A, 10).entry(14, A, "Produce", {}, outcome="lost").copy(15, A, 9)
    assert case.finding(TWICE).outcome == "kept"


def test_a_transaction_delivers_once():
    case = right()
    case.fields["is_transactional"] = True
    assert case.finding(TWICE).outcome == "kept"
    case.outputs.append(OutputRecord(0, 99, 0, 10))
    [found] = case.finding(TWICE).evidence
    assert found.startswith("in-0@9: ")


def test_two_committed_transactions_with_one_record_are_twice_in_any_event():
    case = transactional().copy(15, B, 9, producer_id=8).end_transaction(16, B, 8)
    assert case.finding(TWICE).outcome == "broken"


def test_a_client_may_copy_again_what_the_coordinator_has_forgotten():
    case = transactional().position(14, B, 4).copy(15, B, 9, producer_id=8).end_transaction(16, B, 8)
    assert case.finding(TWICE).outcome == "kept"


def test_a_position_from_before_the_commit_is_no_reason_to_copy_again():
    case = transactional().position(5.01, B, 4).copy(15, B, 9, producer_id=8).end_transaction(16, B, 8)
    assert case.finding(TWICE).outcome == "broken"


# --- committed too early ----------------------------------------------------------------------------------------------


def test_a_commit_beyond_what_the_process_was_sent_is_too_early():
    case = Case(copies=False).position(1, A, -1).fetch(2, A, 0, 3).commit(3, A, 5)
    finding = case.finding(EARLY)
    assert finding.outcome == "broken"
    assert finding.evidence == (f"entry 3 at {A} commits in-0@5: sent up to 4",)


def test_a_request_is_of_the_process_that_opened_its_connection():
    case = Case(copies=False).position(1, A, -1).fetch(2, A, 0, 3, connection=7)
    case.instances[0].runs.append(ProcessRun(pid=200, started_ms=ms(5)))
    assert case.commit(5.1, A, 4, connection=7).finding(EARLY).outcome == "not judged"
    assert case.commit(5.2, A, 4, connection=8).finding(EARLY).outcome == "broken"


def test_what_was_sent_while_the_server_came_back_is_not_recorded_and_may_be_committed():
    case = Case(copies=False, outages=[(ms(4), ms(8))]).position(1, A, -1).fetch(2, A, 0, 3).commit(9, A, 5)
    assert case.finding(EARLY).outcome == "not judged"
    case = Case(copies=False, outages=[(ms(4), ms(8))]).position(1, A, -1).fetch(9, A, 0, 3).commit(10, A, 5)
    assert case.finding(EARLY).outcome == "broken"


def test_a_position_that_the_coordinator_gave_may_be_committed_again():
    case = Case(copies=False).position(1, A, 7).commit(3, A, 7)
    assert case.finding(EARLY).outcome == "not judged"


def test_what_another_process_of_the_instance_was_sent_does_not_count():
    case = Case(copies=False).position(1, A, -1).fetch(2, A, 0, 3)
    case.instances[0].runs.append(ProcessRun(pid=200, started_ms=ms(5)))
    assert case.commit(6, A, 4).finding(EARLY).outcome == "broken"


def test_a_record_that_is_copied_after_its_commit_was_committed_too_early():
    case = Case(records=2).position(1, A, -1).fetch(2, A, 0, 1).copy(3, A, 0).commit(4, A, 2).copy(5, A, 1)
    finding = case.finding(EARLY)
    assert finding.outcome == "broken"
    assert finding.evidence == (
        f"entry 4 at {A} commits in-0@2: the copy in the output topic for 1 came 1000 ms later",
    )


def test_a_refused_commit_is_not_too_early():
    case = Case(records=2).position(1, A, -1).fetch(2, A, 0, 1)
    case.commit(3, A, 2, error="REBALANCE_IN_PROGRESS").copy(4, A, 0, 1).commit(5, A, 2)
    assert case.finding(EARLY).outcome == "kept"


def test_entries_that_the_server_forgot_leave_it_open_what_was_sent():
    case = Case(copies=False, entries_dropped=1).commit(3, A, 5)
    assert case.finding(EARLY).outcome == "not judged"


# --- other testimonies ------------------------------------------------------------------------------------------------


def said(at_s: float | None, *offsets: int, source: str = "lines", instance: int | None = 0) -> Case:
    """A reads ten records, commits them at 13 s, and says that it has processed these."""
    time_ms = None if at_s is None else ms(at_s)
    statements = [Statement(0, offset + 1, time_ms, instance, "a line") for offset in offsets]
    case = Case(copies=False, testimony=source, statements=statements)
    return case.join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 9).commit(13, A, 10)


@pytest.mark.parametrize("source", ["lines", "http"])
def test_lines_of_the_program_testify_as_copies_do(source):
    case = said(12, *range(10), source=source)
    assert {case.finding(each).outcome for each in (LOST, TWICE, EARLY)} == {"kept"}
    assert said(12, *range(9), source=source).finding(LOST).evidence == ("in-0@9",)
    assert said(14, *range(10), source=source).finding(EARLY).outcome == "broken"


def test_a_line_may_be_read_late_but_not_every_line():
    case = said(12, *range(9))
    case.fields["statements"].append(Statement(0, 10, ms(13.2), 0, "a line"))
    assert case.finding(EARLY).outcome == "kept"
    case.fields["statements"][-1] = Statement(0, 10, ms(13.6), 0, "a line")
    assert case.finding(EARLY).outcome == "broken"
    assert said(13.2, *range(10)).finding(EARLY).outcome == "broken"


def test_an_answered_http_call_is_never_late():
    assert said(13.001, *range(10), source="http").finding(EARLY).outcome == "broken"


def test_a_process_says_once_what_it_has_committed():
    case = said(12, *range(10))
    case.fields["statements"].append(Statement(0, 10, ms(15), 0, "a line"))
    assert case.finding(TWICE).evidence == ("in-0@9: a line",)


def test_a_database_shows_what_was_lost_and_not_when_it_was_processed():
    case = said(None, *range(10), source="command", instance=None)
    assert [case.finding(each).outcome for each in (LOST, TWICE, EARLY)] == ["kept", "kept", "not judged"]


# --- transactions -----------------------------------------------------------------------------------------------------


def transactional(*, commits: bool = True) -> Case:
    """A reads ten records, sends their copies and offsets as one transaction, and ends it 60 ms after the offsets."""
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 9).commit(5, A, 10, producer_id=7)
    return case.copy(5.05, A, *range(10), producer_id=7).end_transaction(5.06, A, 7, commits=commits)


def test_offsets_and_copies_of_a_transaction_count_when_it_is_committed_whichever_was_sent_first():
    case = transactional()
    assert case.finding(EARLY).outcome == "kept"
    assert case.finding(LOST).outcome == "kept"


def test_offsets_of_one_transaction_with_the_copies_of_a_later_one_are_too_early():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 9).commit(5, A, 10, producer_id=7)
    case.end_transaction(6, A, 7).copy(7, A, *range(10), producer_id=7).end_transaction(8, A, 7)
    assert case.finding(EARLY).text == "10 records were committed before they were processed"


def test_offsets_that_are_committed_outside_a_transaction_before_it_ends_are_too_early():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 9).copy(5, A, *range(10), producer_id=7)
    case.commit(6, A, 10).end_transaction(7, A, 7)
    assert case.finding(EARLY).outcome == "broken"


def test_offsets_of_an_aborted_transaction_were_never_committed():
    case = transactional(commits=False).commit(7, A, 4)
    assert case.finding(BACK).outcome == "kept"


def test_offsets_of_a_process_that_was_killed_in_its_transaction_are_not_those_of_its_successor():
    case = Case().join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 9).commit(5, A, 10, producer_id=7)
    case.instances[0].runs.append(ProcessRun(pid=200, started_ms=ms(6)))
    case.join(7, A).sync(8, A, 0).position(9, A, -1).fetch(12, A, 0, 6).copy(13, A, *range(7), producer_id=7)
    case.commit(14, A, 7, producer_id=7, producer_epoch=1).end_transaction(15, A, 7, producer_epoch=1)
    case.fetch(16, A, 7, 9).copy(17, A, 7, 8, 9, producer_id=7)
    case.commit(18, A, 10, producer_id=7, producer_epoch=1).end_transaction(19, A, 7, producer_epoch=1)
    assert (case.finding(EARLY).outcome, case.finding(BACK).outcome) == ("kept", "kept")


# --- committed backwards, and by another ------------------------------------------------------------------------------


def test_a_commit_below_the_one_before_it_goes_back():
    case = right().commit(17, B, 6)
    assert case.finding(BACK).evidence == (
        f"entry 12 at {B} commits in-0@6 after entry 11 at {B} committed 10: 4 records come again",
    )


@pytest.mark.parametrize(("later_s", "outcome"), [(2.9, "warning"), (3.1, "broken")])
def test_a_process_that_comes_back_may_finish_what_it_had_polled(later_s, outcome):
    case = right()
    case.instances[0].pauses.append((ms(8), ms(17)))
    assert case.commit(17 + later_s, A, 3).finding(BACK).outcome == outcome


@pytest.mark.parametrize(("epoch", "outcome"), [(0, "warning"), (2, "broken")])
def test_a_heartbeat_that_does_not_join_excuses_no_commit(epoch, outcome):
    case = right().entry(16.5, B, "ConsumerGroupHeartbeat", {"member_id": B, "member_epoch": epoch})
    assert case.commit(17, B, 6).finding(BACK).outcome == outcome


def test_a_refused_commit_moves_nothing_back():
    assert right().commit(17, B, 6, error="ILLEGAL_GENERATION").finding(BACK).outcome == "kept"


def test_a_process_may_commit_an_earlier_position_that_list_offsets_gave_it():
    case = right()
    row = {"topic": TOPIC, "partition": 0, "offset": 2, "error": None}
    case.entry(17, B, "ListOffsets", {}, {"partitions": [row]}).commit(18, B, 4)
    assert case.finding(BACK).outcome == "kept"


@pytest.mark.parametrize(("position_s", "outcome"), [(17, "kept"), (15.9, "broken")])
def test_a_process_may_commit_what_an_administrator_has_reset_but_not_what_it_was_given_before(position_s, outcome):
    case = right().position(position_s, B, 4)
    assert case.commit(20, B, 7).finding(BACK).outcome == outcome


def test_a_topic_that_was_made_again_begins_at_zero():
    assert right(recreated_ms=[ms(17)]).commit(18, B, 2).finding(BACK).outcome == "kept"


def test_an_accepted_commit_long_after_the_partition_went_to_another_is_by_another():
    case = right().commit(15.9, A, 5)
    [found] = case.finding(OTHERS).evidence
    assert found.startswith(f"entry 12 at {A} commits in-0@5, given up at ")
    assert f"owned by instance 1 since entry 2 at {B}" in found


def test_a_commit_that_was_under_way_when_the_partition_was_given_up_is_no_offence():
    assert right().commit(12.5, A, 4).finding(OTHERS).outcome == "kept"


def test_a_refused_commit_of_a_former_owner_is_what_fences_are_for():
    assert right().commit(15.9, A, 5, error="ILLEGAL_GENERATION").finding(OTHERS).outcome == "kept"


# --- read by two at once ----------------------------------------------------------------------------------------------


def test_whoever_joined_without_a_partition_must_not_read_it_while_another_owns_it():
    case = right().fetch(20, A, 4, 9)
    finding = case.finding(TWO)
    assert finding.outcome == "broken"
    assert f"owned by instance 1 since entry 2 at {B}" in finding.evidence[0]


def test_requests_under_way_when_a_partition_is_given_up_are_no_offence():
    case = right().fetch(13, A, 4, 9)
    assert case.finding(TWO).outcome == "kept"


def test_a_zombie_that_does_not_know_it_yet_may_read():
    case = Case().join(1, A).sync(2, A, 0).join(11, B).sync(12, B, 0).fetch(20, A, 4, 9)
    assert case.finding(TWO).outcome == "kept"


def test_a_zombie_that_was_disowned_must_not_read_on():
    case = (
        Case()
        .join(1, A)
        .sync(2, A, 0)
        .join(11, B)
        .sync(12, B, 0)
        .heartbeat(15, A, "UNKNOWN_MEMBER_ID")
        .fetch(20, A, 4, 9)
    )
    assert case.finding(TWO).outcome == "broken"


def test_whoever_gets_a_partition_back_may_read_it_at_once():
    case = right().join(18, B).sync(19, B).join(18.5, A).sync(19.5, A, 0).fetch(19.6, A, 4, 9)
    assert case.finding(TWO).outcome == "kept"


def test_a_cooperative_member_keeps_reading_what_it_keeps():
    case = Case(partitions=2).join(1, A).sync(2, A, 0, 1).join(11, A, 0).sync(12, A, 0).join(11, B).sync(12, B, 1)
    assert case.fetch(20, A, 0, 3, partition=0).finding(TWO).outcome == "kept"
    assert case.fetch(21, A, 0, 3, partition=1).finding(TWO).outcome == "broken"


def test_a_partition_that_nobody_else_has_may_be_read():
    case = Case().join(1, A).sync(2, A, 0).join(11, A).fetch(20, A, 4, 9)
    assert case.finding(TWO).outcome == "kept"


@pytest.mark.parametrize("end_s", [16, 21])
def test_who_owned_a_partition_before_the_server_was_killed_is_not_known(end_s):
    """Nor while it came back: the recordings begin a moment later."""
    case = right().fetch(20, A, 4, 9)
    case.fields["outages"] = [(ms(15), ms(end_s))]
    assert case.finding(TWO).outcome == "kept"


def test_a_consumer_heartbeat_acknowledges_a_revocation():
    case = Case(partitions=2)
    rows = [{"topic": "in", "partition": index} for index in range(2)]
    case.entry(1, A, "ConsumerGroupHeartbeat", {"member_id": "a", "member_epoch": 0}, {"assignment": rows})
    case.entry(5, A, "ConsumerGroupHeartbeat", {"member_id": "a", "member_epoch": 1}, {"assignment": rows[:1]})
    case.entry(6, A, "ConsumerGroupHeartbeat", {"member_id": "a", "member_epoch": 1, "topic_partitions": rows[:1]})
    case.entry(7, B, "ConsumerGroupHeartbeat", {"member_id": "b", "member_epoch": 0}, {"assignment": rows[1:]})
    assert case.fetch(12, A, 0, 3, partition=0).finding(TWO).outcome == "kept"
    assert case.fetch(13, A, 0, 3, partition=1).finding(TWO).outcome == "broken"


# --- seconds without progress -----------------------------------------------------------------------------------------


def test_a_partition_that_stands_still_longer_than_the_event_allows_breaks_the_promise():
    case = right()
    case.fields["allows"] = Allows(stall_s=5)
    finding = case.finding(STALL)
    assert (finding.outcome, finding.count) == ("broken", 6.0)
    assert finding.evidence[0].startswith("in-0: 6.0 s from +0.0 s on: ")


def test_nobody_stands_still_while_the_server_is_down():
    case = right(outages=[(ms(11), ms(14))])
    case.fields["allows"] = Allows(stall_s=5)
    finding = case.finding(STALL)
    assert (finding.outcome, finding.count) == ("kept", 3.0)


@pytest.mark.parametrize(
    ("exit_code", "asked_s", "outcome"),
    [
        (-signal.SIGKILL, (12.2, 12.8, 13.8), "kept"),
        (0, (12.2, 12.8, 13.8), "broken"),
        (-signal.SIGKILL, (10.6, 15.8), "broken"),
    ],
    ids=["killed", "ended without its abort", "asks too rarely"],
)
def test_nobody_can_go_on_behind_the_open_transaction_of_a_killed_process(exit_code, asked_s, outcome):
    case = right()
    case.fields["allows"] = Allows(stall_s=5)
    case.instances[0].runs[0].ended_ms = ms(10.5)
    case.instances[0].runs[0].exit_code = exit_code
    row = {"topic": TOPIC, "partition": 0, "error": "UNSTABLE_OFFSET_COMMIT"}
    for at_s in asked_s:
        case.entry(at_s, B, "OffsetFetch", {}, {"groups": [{"group_id": "g", "partitions": [row]}]})
    assert case.finding(STALL).outcome == outcome


def test_a_commit_that_does_not_advance_is_no_progress():
    case = right()
    case.fields["allows"] = Allows(stall_s=5)
    assert case.commit(13, A, 4).finding(STALL).outcome == "broken"


def test_a_group_that_does_not_catch_up_breaks_the_promise():
    case = right()
    case.fields |= {"settled_ms": None, "stopped_ms": ms(20), "committed": {0: 8}}
    finding = case.finding(STALL)
    assert finding.outcome == "broken"
    assert finding.evidence[0].startswith("in-0: committed 8 of 10: ")


def test_a_group_is_not_to_blame_for_an_event_that_the_server_refused():
    case = right(is_interrupted=True)
    case.fields |= {"settled_ms": None, "stopped_ms": ms(20), "committed": {0: 8}}
    assert case.finding(STALL).outcome == "not judged"


def stalled() -> Case:
    """A owns the partition and commits 4 at 11 s; the next commit that advances it comes at 28 s."""
    case = Case(copies=False).join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 3).commit(9, A, 2)
    case.commit(11, A, 4).commit(28, A, 10)
    case.fields["allows"] = Allows(stall_s=15)
    return case


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (lambda case: case, "its owner, instance 0, was sent no record of it"),
        (lambda case: case.fetch(12, A, 4, 9), "its owner, instance 0, was sent 6 records of it and committed no offset"),
        (lambda case: case.fetch(12, A, 4, 9).commit(14, A, 2), "instance 0 moved the offset back from 4 to 2 (commits: 1)"),
        (
            lambda case: case.commit(12, B, 4).commit(13, B, 4),
            "instance 1, which did not own it, committed 4 again and again (commits: 2)",
        ),
        (
            lambda case: case.commit(12, A, 5, error="ILLEGAL_GENERATION"),
            "commits of instance 0 were refused: 1 ILLEGAL_GENERATION",
        ),
        (
            lambda case: case.fetch(12, A, 4, 9).end_transaction(13, A, 7),
            "its owner, instance 0, was sent 6 records of it and committed no offset in 1 transactions",
        ),
    ],
)  # fmt: skip
def test_a_stall_is_named_by_its_cause(cause, text):
    finding = cause(stalled()).finding(STALL)
    assert finding.text == f"a partition stood still for 17 s; the event allows 15 s: {text}"


def test_a_stall_is_named_by_the_answer_that_the_owner_waited_for():
    case = stalled().entry(12, A, "Heartbeat", {"member_id": "a"})
    case.entries[-1].answered_ms = ms(27)
    assert "instance 0 waited 15.0 s for the answer to Heartbeat (entry 8 at " in case.finding(STALL).evidence[0]


def test_a_stall_is_named_by_the_offsets_that_the_owner_did_not_ask_for_again():
    case = stalled().entry(12, A, "OffsetFetch", {}, {"groups": [{"group_id": "g", "error": "NOT_COORDINATOR"}]})
    text = "instance 0 got NOT_COORDINATOR for its last OffsetFetch and did not repeat it (entry 8 at "
    assert text in case.finding(STALL).evidence[0]
    assert text not in case.position(14, A, 4).finding(STALL).evidence[0]


def test_a_stall_is_named_by_the_end_of_the_owner_and_by_its_pause():
    case = stalled()
    case.instances[0].runs[0] = ProcessRun(pid=1, started_ms=ms(0), ended_ms=ms(12), ended_by="itself", exit_code=3)
    assert "its owner, instance 0, exited with code 3 at +2.0 s" in case.finding(STALL).text
    case = stalled()
    case.instances[0].pauses.append((ms(12), ms(27)))
    assert "its owner, instance 0, was paused at +2.0 s" in case.finding(STALL).text


def test_a_partition_that_is_read_and_never_committed_breaks_the_promise_before_the_event():
    case = Case(provoked_ms=None, settled_ms=None).join(1, A).sync(2, A, 0).position(3, A, -1).fetch(4, A, 0, 9)
    case.end_transaction(5, A, 7)
    finding = case.finding(STALL)
    assert finding.outcome == "broken"
    assert finding.text.startswith(
        "a partition was read and never committed: its owner, instance 0, was sent 10 records"
    )
    case.fields["stopped_ms"] = ms(20)
    assert case.finding(STALL).outcome == "not judged"


# --- rebalances -------------------------------------------------------------------------------------------------------


def test_rebalances_beyond_those_of_the_event_count_against_the_program():
    case = right().rebalance(12, 3)
    finding = case.finding(REBALANCES)
    assert (finding.outcome, finding.count) == ("broken", 2)


def test_rebalances_before_the_event_and_after_the_stop_do_not_count():
    assert right().rebalance(5).rebalance(31.5).finding(REBALANCES).outcome == "kept"


def test_a_leader_may_begin_one_more_when_it_heard_of_a_rebalance_too_late():
    """Its heartbeat was answered while it joined: whether that happens depends on the speed of the machine."""
    once = right().rebalance(13, 3, LEADER_AGAIN)
    assert (once.finding(REBALANCES).outcome, once.finding(REBALANCES).count) == ("kept", 1)
    twice = once.rebalance(15, 4, LEADER_AGAIN)
    assert (twice.finding(REBALANCES).outcome, twice.finding(REBALANCES).count) == ("broken", 2)
    assert right().rebalance(16, 3, LEADER_AGAIN).finding(REBALANCES).outcome == "broken"


def test_a_cooperative_assignor_rebalances_twice():
    assert right().rebalance(12, 3).join(12, B, 0).finding(REBALANCES).outcome == "kept"


def test_an_event_may_leave_the_number_of_rebalances_open():
    case = right().rebalance(12, 3)
    case.fields["allows"] = Allows(rebalances=None)
    assert case.finding(REBALANCES).outcome == "not judged"


# --- requests after a fatal error -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "ILLEGAL_GENERATION"])
def test_a_disowned_member_falls_silent(error):
    case = right().heartbeat(17, B, error)
    assert case.commit(18, B, 10, error=error).finding(FATAL).outcome == "kept"
    assert case.commit(25, B, 10, error=error).finding(FATAL).outcome == "broken"


def test_a_member_that_joined_again_may_go_on_with_the_same_id_and_generation():
    case = right().heartbeat(17, B, "ILLEGAL_GENERATION").join(18, B).heartbeat(25, B)
    assert case.finding(FATAL).outcome == "kept"


def test_a_member_that_came_back_under_another_id_is_another_one():
    case = right().heartbeat(17, B, "UNKNOWN_MEMBER_ID").join(18, B, member="b2").heartbeat(25, B, member="b2")
    assert case.finding(FATAL).outcome == "kept"


def test_whoever_was_refused_because_the_group_is_full_does_not_join_again():
    case = right().join(17, A, error="GROUP_MAX_SIZE_REACHED")
    assert case.finding(FATAL).outcome == "kept"
    assert case.join(24, A, error="GROUP_MAX_SIZE_REACHED").finding(FATAL).outcome == "broken"


def test_a_fenced_process_does_not_join_as_a_new_member_at_once():
    case = right().heartbeat(17, B, "FENCED_INSTANCE_ID")
    assert case.join(17.5, B).finding(FATAL).outcome == "kept"
    new = case.entry(18, B, "JoinGroup", {"member_id": "", "protocols": []}, {"member_id": "new", "error": None})
    assert new.finding(FATAL).outcome == "broken"


@pytest.mark.parametrize("error", ["FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID"])
def test_a_process_that_was_refused_does_not_take_its_instance_id_back_from_another(error):
    taken = right().join(17, A, member="one", instance="i").join(18, B, member="two", instance="i")
    assert taken.heartbeat(19, A, error, member="one").finding(FATAL).outcome == "kept"
    assert taken.join(19.5, A, member="three", instance="i").finding(FATAL).outcome == "broken"


def test_a_process_that_was_not_refused_may_join_again_with_its_instance_id():
    case = right().join(17, A, member="one", instance="i").heartbeat(18, A, "UNKNOWN_MEMBER_ID", member="one")
    assert case.join(19, A, member="two", instance="i").finding(FATAL).outcome == "kept"


def test_a_new_process_of_the_instance_may_join():
    case = right().join(17, A, error="GROUP_MAX_SIZE_REACHED")
    case.instances[0].runs.append(ProcessRun(pid=200, started_ms=ms(20)))
    assert case.join(24, A).finding(FATAL).outcome == "kept"


# --- program ended ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "may_end", "outcome"),
    [("stage", False, "kept"), ("itself", True, "kept"), ("itself", False, "broken")],
)
def test_a_process_ends_by_itself_only_in_an_event_that_is_fatal(by, may_end, outcome):
    case = right()
    case.fields["allows"] = Allows(rebalances=1, may_end=may_end)
    case.instances[0].runs[0].ended_ms = ms(20)
    case.instances[0].runs[0].ended_by = by
    assert case.finding(ENDED).outcome == outcome


# --- partitions that lose their end -----------------------------------------------------------------------------------

NEW = range(20, 26)
"""What `Case.copy` takes for the six records that follow the loss, at the offsets 6 to 11."""


def test_whoever_goes_back_to_the_end_of_the_log_and_reads_what_follows_keeps_every_promise():
    case = truncated().fetch(16, A, 6, 7).copy(17, A, *NEW[:2]).commit(18, A, 8)
    case.fetch(19, A, 8, 11).copy(20, A, *NEW[2:]).commit(21, A, 12)
    assert {case.finding(name).outcome for name in (LOST, TWICE, EARLY, BACK, STALL)} == {"kept"}


def test_whoever_reads_on_from_its_position_loses_the_records_that_have_the_offsets_of_others():
    case = truncated().fetch(17, A, 10, 11).copy(18, A, *NEW[4:]).commit(19, A, 12)
    assert case.finding(LOST).evidence == ("in-0@6", "in-0@7", "in-0@8", "in-0@9")


def test_without_a_testimony_records_with_the_same_offsets_were_not_sent_by_what_was_sent_before():
    case = truncated(copies=False).fetch(17, A, 10, 11).commit(19, A, 12)
    assert case.finding(LOST).evidence == ("in-0@6", "in-0@7", "in-0@8", "in-0@9")


def test_a_record_that_the_partition_lost_is_no_loss_of_the_program():
    case = truncated().fetch(17, A, 6, 11).copy(18, A, *NEW).commit(19, A, 12)
    del case.outputs[9]
    assert case.finding(LOST).outcome == "kept"


def test_a_commit_of_the_former_position_says_nothing_of_the_records_that_follow():
    case = truncated().commit(16, A, 10).fetch(17, A, 6, 11).copy(18, A, *NEW).commit(19, A, 12)
    assert (case.finding(EARLY).outcome, case.finding(BACK).outcome) == ("kept", "kept")


def test_records_that_follow_are_not_committed_before_they_are_processed():
    case = truncated().fetch(17, A, 6, 11).commit(18, A, 12).copy(19, A, *NEW)
    assert case.finding(EARLY).count == 6


def test_what_the_partition_still_has_is_not_committed_again():
    finding = truncated().commit(18, A, 5).finding(BACK)
    assert finding.outcome == "broken"
    assert "commits in-0@5 after" in finding.evidence[0]


@pytest.mark.parametrize(("first", "outcome"), [(6, "kept"), (4, "broken")])
def test_whoever_is_given_an_offset_beyond_the_end_may_read_from_the_end_on(first, outcome):
    case = truncated().position(16, A, 10).fetch(17, A, first, first + 1)
    assert case.finding(TWICE).outcome == outcome


def test_a_partition_that_lost_its_end_makes_progress_from_there_on():
    case = truncated(allows=Allows(stall_s=14), settled_ms=ms(40))
    for at_s, offset in ((23, 7), (34, 9), (39, 11)):
        case.commit(at_s, A, offset)
    assert case.finding(STALL).outcome == "kept"

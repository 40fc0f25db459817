"""Events are written beside the state, never delay a reply, and missing ones are recorded."""

import errno
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ClassicGroupGenerationKey, ClassicGroupGenerationValue, OffsetCommitKey
from coordinator.runtime.event_log import RETRY_MS, Status
from coordinator.runtime.result import Marker, Record, Result
from coordinator.runtime.shard import Status as ShardStatus
from tests.runtime.event_world import EVENTS, STATE, EventWorld, committed_offsets


def is_success(target):
    return [p.error_code for t in target.answers[0].topics for p in t.partitions] == [0]


def test_events_of_a_turn_are_one_batch_and_the_last_has_the_state_end_offset():
    world = EventWorld()
    world.commit(1)
    world.commit(2, 3)
    world.commit(9, member_id="m", generation=3)
    world.settle()
    (batch,) = world.batches()
    assert [kind for _, kind, _ in batch] == ["EventLogOpened", "CommitDecided", "CommitDecided", "CommitDecided"]
    assert [value.state_offset for _, _, value in batch] == [0, 0, 1, 3]
    assert [value.state_end_offset for _, _, value in batch] == [-1, -1, -1, 3]
    assert [value.time_ms for _, _, value in batch[1:]] == [world.clock.wall_ms()] * 3
    assert world.written == [0]
    assert (world.event_log.written, world.event_log.lost) == (4, 0)
    assert world.event_log.written_bytes == world.event_log.log.size_bytes


def test_events_are_written_in_the_same_turn_as_the_state_before_any_response():
    world = EventWorld()
    target = world.commit(1)
    world.turn()
    assert target.answers == []
    assert world.kinds() == ["EventLogOpened", "CommitDecided"]


def test_a_refusal_without_records_has_an_event():
    world = EventWorld()
    world.commit(1, member_id="m", generation=3)
    world.turn()
    (event,) = world.events_of("CommitDecided")
    assert event.error_code == ErrorCode.ILLEGAL_GENERATION
    assert world.state() == []


def test_a_shard_without_events_has_no_file():
    world = EventWorld()
    world.stop()
    assert world.disk.list(EVENTS) in ([], ["log-checkpoint"])


def test_a_clean_stop_is_recorded_and_the_next_start_reports_no_gap():
    world = EventWorld()
    world.commit(1)
    world.settle()
    world.stop()
    world.restart(world.disk.kill)
    assert world.kinds() == ["EventLogOpened", "CommitDecided", "EventLogClosed", "EventLogOpened"]
    first, second = world.events_of("EventLogOpened")
    assert (first.run_id, first.node_id, first.policy, first.cause) == ("run-1", 1, "all", "start")
    assert (first.state_offset, first.previous_state_offset, first.covered_state_offset) == (0, -1, -1)
    (closed,) = world.events_of("EventLogClosed")
    assert (second.run_id, second.cleanly_closed, second.previous_time_ms) == ("run-2", True, closed.time_ms)
    assert first.previous_time_ms == -1
    assert (second.state_offset, second.previous_state_offset, second.covered_state_offset) == (1, 1, 1)
    assert world.event_log.gaps == 0


def test_a_killed_process_loses_no_event_of_a_turn_that_was_written():
    world = EventWorld("write")
    for offset in range(5):
        world.commit(offset)
        world.turn()
    world.restart(world.disk.kill)
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[0], [1], [2], [3], [4]]
    opened = world.events_of("EventLogOpened")[-1]
    assert (opened.state_offset, opened.covered_state_offset, opened.cleanly_closed) == (5, 5, False)
    assert world.event_log.gaps == 0


def test_events_lost_without_their_state_are_recorded_as_a_gap(caplog):
    world = EventWorld()
    world.commit(1)
    world.settle()
    events_end = world.event_log.log.end_offset
    world.commit(2)
    world.commit(3)
    world.settle()
    world.lose(events=events_end)
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[1]]
    opened = world.events_of("EventLogOpened")[-1]
    assert (opened.covered_state_offset, opened.state_offset) == (1, 3)
    assert world.event_log.gaps == 1
    assert "event=events_missing shard=0 state_offset_from=1 state_offset_to=3" in caplog.text


def test_changes_without_an_event_are_no_gap_after_a_kill():
    world = EventWorld()
    for result in (
        Result(marker=Marker(7, 3, True, 1)),
        Result(records=[Record(OffsetCommitKey("g", "t", 0), None, 4)]),
        Result(records=[Record(ClassicGroupGenerationKey("g"), ClassicGroupGenerationValue("consumer", 3))]),
    ):
        world.shard.run_internal(lambda _state, _now_ms, result=result: result)
        world.settle()
        world.restart(world.disk.kill)
    assert world.shard.offset_durable == 3
    assert {(each.covered_state_offset, each.state_offset) for each in world.events_of("EventLogOpened")[1:]} == {
        (1, 1), (2, 2), (3, 3)
    }  # fmt: skip
    assert world.event_log.gaps == 0


def test_changes_without_an_event_are_noted_once_and_only_where_every_decision_has_an_event():
    world, partial = EventWorld(), EventWorld(policy="refused")
    for each in (world, partial):
        each.commit(1)
        each.settle()
        each.shard.run_internal(lambda _state, _now_ms: Result(marker=Marker(7, 3, True, 1)))
        each.settle()
        each.commit(1, member_id="m", generation=3)
        each.settle()
    assert world.kinds() == ["EventLogOpened", "CommitDecided", "EventLogCovered", "CommitDecided"]
    assert partial.kinds() == ["EventLogOpened", "CommitDecided"]
    assert (world.event_log.written, world.event_log.lost) == (4, 0)


def test_events_ahead_of_a_lost_state_are_recorded_as_undone(caplog):
    world = EventWorld()
    world.commit(1)
    world.settle()
    world.commit(8, member_id="m", generation=3)
    world.commit(2)
    world.commit(9, member_id="m", generation=3)
    world.turn()
    world.lose(state=1)
    assert len(world.state()) == 1
    opened = world.events_of("EventLogOpened")[-1]
    undone = [value for offset, _, value in world.events() if offset >= opened.undone_from_offset > 0][:-1]
    assert [committed_offsets(value) for value in undone] == [[2], [9]], "the refusal before it stands"
    assert opened.state_offset == 1
    assert "event=events_undone" in caplog.text
    world.commit(5)
    world.settle()
    world.restart(world.disk.kill)
    assert world.events_of("EventLogOpened")[-1].undone_from_offset == -1


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_keeps_a_turn_with_its_events_or_neither(seed):
    """The last turns may be lost, but the kept events describe the kept state and nothing else."""
    world, random = EventWorld(journal_file_bytes=8_192), Random(seed)
    for offset in range(random.randrange(1, 60)):
        world.commit(offset)
        world.turn()
        if random.random() < 0.7:
            world.finish_syncs()
        if random.random() < 0.1:
            world.write_behind()
    world.restart(lambda: world.disk.crash(random))
    state = [record.value.offset for record in world.state()]
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[offset] for offset in state]
    opened = world.events_of("EventLogOpened")[-1]
    assert (max(0, opened.covered_state_offset), opened.undone_from_offset) == (len(state), -1)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_error_of_the_event_log_affects_neither_commits_nor_events(number):
    """The journal has the events, and writes them to the segment later."""
    world = EventWorld()
    world.commit(1)
    world.settle()
    world.disk.errors[EVENTS] = number
    targets = [world.commit(offset) for offset in (2, 3)]
    world.settle()
    world.write_behind()
    assert all(is_success(target) for target in targets)
    assert world.shard.status is ShardStatus.ACTIVE
    assert world.event_log.status is Status.ACTIVE
    assert world.event_log.log.is_behind
    world.disk.errors.clear()
    world.advance(RETRY_MS)
    assert not world.event_log.log.is_behind
    world.restart(lambda: world.disk.crash(Random(1)))
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[1], [2], [3]]
    assert (world.event_log.gaps, world.event_log.lost) == (0, 0)


def test_an_event_log_that_cannot_be_written_when_the_journal_needs_its_place_fails_alone():
    """Commits go on; the next start finds out which events are lost."""
    world = EventWorld(journal_file_bytes=8_192)
    world.disk.errors[EVENTS] = errno.EIO
    offset = 0
    while world.event_log.status is Status.ACTIVE:
        offset += 1
        world.commit(offset)
        world.settle()
        assert offset < 100
    assert "injected" in world.event_log.reason
    for _ in range(100):
        offset += 1
        target = world.commit(offset)
        world.settle()
        assert is_success(target)
    assert world.event_log.lost >= 100
    world.disk.errors.clear()
    world.restart(world.disk.kill)
    decided = [committed_offsets(value) for value in world.events_of("CommitDecided")]
    assert decided == [[each] for each in range(1, len(decided) + 1)]
    opened = world.events_of("EventLogOpened")[-1]
    assert (max(0, opened.covered_state_offset), opened.state_offset) == (len(decided), offset)


def test_a_full_disk_is_not_retried_before_the_retry_delay():
    world = EventWorld()
    world.commit(1)
    world.settle()
    world.fill_disk()
    world.commit(9, member_id="m", generation=3)
    world.settle()
    assert world.event_log.status is Status.BLOCKED
    world.disk.capacity_bytes = None
    world.commit(9, member_id="m", generation=3)
    world.settle()
    assert world.event_log.lost == 2
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[1]]
    world.advance(RETRY_MS)
    world.commit(4)
    world.settle()
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[1], [4]]
    resumed = world.events_of("EventLogOpened")[-1]
    assert (resumed.cause, resumed.events_lost) == ("resume", 2)
    assert (resumed.covered_state_offset, resumed.state_offset) == (1, 1)
    assert world.event_log.status is Status.ACTIVE


def test_an_event_log_whose_sync_failed_stays_failed_until_a_restart():
    world = EventWorld()
    world.commit(1)
    world.settle()
    world.event_log.log.failed = OSError(errno.EIO, "sync")
    target = world.commit(2)
    world.settle()
    assert is_success(target)
    assert world.event_log.status is Status.FAILED
    world.restart(world.disk.kill)
    assert world.event_log.status is Status.ACTIVE
    opened = world.events_of("EventLogOpened")[-1]
    assert (opened.covered_state_offset, opened.state_offset) == (1, 2)


def test_events_of_a_state_that_cannot_be_written_are_not_written():
    world = EventWorld()
    world.commit(1)
    world.settle()
    world.fill_disk()
    target = world.commit(2)
    world.settle()
    (refusal,) = target.answers
    assert isinstance(refusal, KafkaError)
    world.disk.capacity_bytes = None
    world.advance(RETRY_MS)
    world.commit(3)
    world.settle()
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[1], [3]]
    reloaded = world.events_of("EventLogOpened")[-1]
    assert (reloaded.cause, reloaded.state_offset, reloaded.undone_from_offset) == ("reload", 1, -1)


def test_a_state_that_cannot_be_synced_takes_its_events_with_it():
    world = EventWorld()
    world.commit(1)
    world.settle()
    world.commit(2)
    world.turn()
    world.disk.sync_errors.append(errno.ENOSPC)
    world.finish_syncs()
    assert [record.value.offset for record in world.state()] == [1]
    world.advance(RETRY_MS)
    world.commit(3)
    world.settle()
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[1], [3]]
    reloaded = world.events_of("EventLogOpened")[-1]
    assert (reloaded.cause, reloaded.state_offset, reloaded.undone_from_offset) == ("reload", 1, -1)


def test_a_damaged_event_log_does_not_block_the_shard():
    world = EventWorld()
    world.event_log.log.failed = OSError(errno.EIO, "damaged")
    world.shard.load()
    target = world.commit(1)
    world.settle()
    assert is_success(target)
    assert world.event_log.status is Status.FAILED
    assert "damaged" in world.event_log.reason
    assert world.event_log.lost == 1
    world.stop()


def test_a_name_too_long_to_encode_loses_only_its_own_event():
    world = EventWorld()
    world.commit(1, member_id="m" * 40_000, generation=3)
    world.commit(2)
    world.settle()
    assert [committed_offsets(value) for value in world.events_of("CommitDecided")] == [[2]]
    assert world.event_log.lost == 1


def test_old_events_are_deleted_by_size():
    world = EventWorld(event_segment_bytes=2_000, event_retention_bytes=4_000)
    for offset in range(60):
        world.commit(offset)
        world.settle()
        world.write_behind()
    world.event_log.retain(world.clock.wall_ms())
    assert world.event_log.log.size_bytes < 8_000
    assert world.event_log.log.start_offset > 0
    assert committed_offsets(world.events_of("CommitDecided")[-1]) == [59]
    world.restart(world.disk.kill)
    assert world.event_log.gaps == 0


WORK = ("commit", "commit", "refuse", "turn", "sync", "settle")
TROUBLE = ("kill", "crash", "stop", "events-full", "state-full", "space")
STEPS = st.lists(st.sampled_from([*WORK, *TROUBLE]), max_size=40)


@given(STEPS, st.integers(0, 2**32))
def test_the_events_describe_the_state_except_for_reported_gaps_and_undone_events(steps, seed):
    """Each state record belongs to a valid event or lies in a gap; each valid event has its records."""
    random = Random(seed)
    world = EventWorld()
    for offset, step in enumerate(steps, 1):
        match step:
            case "commit":
                world.commit(*range(offset * 10, offset * 10 + random.randrange(1, 4)))
            case "refuse":
                world.commit(offset * 10, member_id="m", generation=1)
            case "turn":
                world.turn()
            case "sync":
                world.finish_syncs()
            case "settle":
                world.settle()
            case "kill":
                world.restart(world.disk.kill)
            case "crash":
                world.restart(lambda: world.disk.crash(random))
            case "stop":
                world.settle()
                if world.shard.status is ShardStatus.ACTIVE:
                    world.stop()
                    world.restart(world.disk.kill)
            case "events-full":
                world.disk.errors = {EVENTS: errno.ENOSPC}
            case "state-full":
                world.disk.errors = {STATE: errno.ENOSPC}
            case "space":
                world.disk.errors = {}
                world.advance(2_000)
    world.disk.errors = {}
    world.settle()
    world.restart(world.disk.kill)
    check_against_state(world)


def check_against_state(world):
    state = world.state()
    described = [None] * len(state)
    gaps = set()
    events = world.events()
    standing = {}
    for offset, kind, value in events:
        if kind == "EventLogOpened":
            if value.undone_from_offset >= 0:
                standing = {at: each for at, each in standing.items() if at < value.undone_from_offset}
            gaps |= set(range(max(value.covered_state_offset, 0), value.state_offset))
        elif kind == "CommitDecided":
            standing[offset] = value
    for value in standing.values():
        if value.error_code:
            continue
        for place, committed in enumerate(committed_offsets(value), value.state_offset):
            assert state[place].value.offset == committed, "an event that stands has its records"
            assert described[place] is None
            described[place] = committed
    missing = {place for place, committed in enumerate(described) if committed is None}
    assert missing <= gaps, "records without an event lie in a reported gap"

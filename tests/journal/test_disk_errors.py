"""A full disk and failing syncs, at every place: nothing that was acknowledged is lost, and the owners learn about the rest."""

import errno
from random import Random

import pytest

from coordinator.journal.journal import RETRY_MS, SLOTS_MAX, WRITE_BEHIND_MS
from coordinator.journal.slot import Slot
from coordinator_lab.simulation import disk
from coordinator_lab.simulation.disk import SECTOR_BYTES, Inode, SimulatedFile
from tests.journal.journal_world import (
    BEST_EFFORT,
    FILE_BYTES,
    FOLDER,
    SEGMENT_BYTES,
    JournalWorld,
    Owner,
    is_checkpoint,
    work,
)
from tests.support.journal import open_log

A, B = "groups-0", "groups-1"


class StrictInode(Inode):
    """A file of which a later sync does not write what a failed one left behind: the kernel takes it for clean."""

    __slots__ = ()

    def sync(self):
        size = len(self.cached)
        durable = bytearray(self.durable[:size].ljust(size, b"\0"))
        for sector in self.states:
            start = sector * SECTOR_BYTES
            durable[start : start + SECTOR_BYTES] = self.cached[start : start + SECTOR_BYTES]
        if self.states or self.sizes:
            self.durable = bytes(durable)
        self.forget_unsynced()


@pytest.fixture
def strict_disk(monkeypatch):
    monkeypatch.setattr(disk, "Inode", StrictInode)


class SyncErrors:
    """The sync with this number fails."""

    def __init__(self, number, error):
        self.left = number
        self.error = error
        self.is_over = False

    def __bool__(self):
        self.left -= 1
        self.is_over = self.is_over or self.left < 0
        return self.left == -1

    def pop(self, _index):
        return self.error


def written(world, name=A, *sizes):
    """Writes in a turn of its own; whether it was reported as durable."""
    if not world.write(name, *sizes):
        return False
    world.settle()
    return world.history[-1].is_durable


def fill_disk(world):
    """No byte is left, and the journal notices when it writes to a segment what it has."""
    assert written(world)
    world.disk.capacity_bytes = 0
    world.advance(WRITE_BEHIND_MS)


def restarted(world, random):
    """The next process, on a disk with space, after a kill or a power cut."""
    world.disk.capacity_bytes = None
    world.disk.sync_errors = []
    return world.crashed(random) if random.random() < 0.5 else world.killed()


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["fsync", "write"])
def test_however_little_space_there_is_nothing_acknowledged_is_lost(durability):
    """The space ends anywhere: when a slot is made, when a segment is written or begins, when the logs are closed."""
    for seed in range(60):
        random, world = Random(seed), JournalWorld(durability)
        world.open()
        world.disk.capacity_bytes = world.disk.used_bytes() + random.randrange(20_000)
        work(world, random)
        if random.random() < 0.3:
            world.stop()
        if durability == "write":
            world.disk.capacity_bytes = None
            world.killed().check()
        else:
            restarted(world, random).check()


def test_when_space_comes_and_goes_the_server_writes_again_and_loses_nothing_acknowledged():
    for seed in range(30):
        random, world = Random(seed), JournalWorld()
        world.open()
        for _ in range(3):
            world.disk.capacity_bytes = world.disk.used_bytes() + random.randrange(6_000)
            work(world, random, 40)
            world.disk.capacity_bytes = None
            world.advance(RETRY_MS)
            world.settle()
            assert written(world) or written(world), "there is space, so it is accepted"
        restarted(world, random).check()


def test_a_full_disk_takes_no_more_than_the_journal_and_takes_it_again_when_there_is_space():
    world = JournalWorld().open()
    fill_disk(world)
    assert not written(world)
    assert world.owners[A].errors[-1].errno == errno.ENOSPC
    assert not written(world, B), "another log cannot be written either"
    world.disk.capacity_bytes = None
    assert written(world), "the first write tries it, without waiting for the timer"
    world.crashed(Random(1)).check()


def test_a_blocked_journal_tries_again_by_itself():
    world = JournalWorld().open()
    fill_disk(world)
    world.disk.capacity_bytes = None
    world.advance(RETRY_MS)
    assert not world.owners[A].log.is_behind
    assert world.owners[A].errors == []


def test_a_free_slot_is_given_up_before_a_write_is_refused():
    """Its place is enough for the segments."""
    world = JournalWorld().open()
    while len(world.slots()) < 2:
        assert written(world, A, 400)
    slots = world.slots()
    world.disk.capacity_bytes = world.disk.used_bytes()
    world.advance(WRITE_BEHIND_MS)
    assert not world.owners[A].log.is_behind
    assert len(world.slots()) < len(slots)
    assert written(world)
    world.disk.capacity_bytes = None
    world.stop()
    assert world.disk.files_open == 0
    world.killed().check()


def test_an_entry_for_which_no_slot_can_be_made_is_refused_and_the_next_one_is_taken():
    world = JournalWorld().open()
    world.disk.capacity_bytes = world.disk.used_bytes()
    assert not written(world, A, 2 * FILE_BYTES)
    assert [error.errno for error in world.owners[A].errors] == [errno.ENOSPC]
    assert world.owners[A].log.end_offset == 0
    assert written(world), "a small one has room"
    world.disk.capacity_bytes = None
    assert written(world, A, 2 * FILE_BYTES)
    world.crashed(Random(1)).check()


def test_a_slot_that_could_not_be_made_in_advance_is_tried_again_when_it_is_needed():
    """There is space by then, so no write is refused."""
    world = JournalWorld().open()
    world.disk.capacity_bytes = world.disk.used_bytes()
    for _ in range(7):
        assert written(world, A, 800)
    world.disk.capacity_bytes = None
    for _ in range(10):
        assert written(world, A, 800)


def test_an_entry_whose_slot_cannot_be_begun_is_refused_and_nothing_is_written(monkeypatch):
    """A file system that copies what is overwritten may lack the space for it."""

    def no_space(_slot, _header):
        raise OSError(errno.ENOSPC, "no space")

    world = JournalWorld().open()
    with monkeypatch.context() as patched:
        patched.setattr(Slot, "begin", no_space)
        while written(world, A, 800):
            entries = world.journal.entries
        assert [error.errno for error in world.owners[A].errors] == [errno.ENOSPC]
        assert world.journal.entries == entries
    assert written(world, A, 800)
    world.crashed(Random(1)).check()


def test_a_write_that_the_disk_refuses_during_its_sync_is_dropped_from_every_log_of_the_turn():
    world = JournalWorld().open()
    assert written(world)
    world.write(A)
    world.write(B)
    world.disk.sync_errors = [errno.ENOSPC]
    world.settle()
    assert [owner.errors[-1].errno for owner in (world.owners[A], world.owners[B])] == [errno.ENOSPC] * 2
    assert [owner.log.end_offset for owner in (world.owners[A], world.owners[B])] == [1, 0]
    assert written(world, B)
    world.crashed(Random(1)).check()


def test_a_slot_whose_first_sync_failed_for_lack_of_space_keeps_what_follows(strict_disk):
    """The slot's header was written with the entry whose sync failed. The next entry's sync does not cover it."""
    world = JournalWorld().open()
    while not any(map(is_checkpoint, world.jobs)):
        world.settle()
        world.write(A, 400)
        world.turn()
    world.disk.sync_errors = [errno.ENOSPC]
    world.work(-1)
    world.deliver()
    assert world.history[-1].is_refused
    world.write(A)
    world.turn()
    world.work(-1)
    world.deliver()
    assert world.history[-1].is_durable
    world.crashed(Random(1)).check()


def test_a_start_on_a_full_disk_serves_reads_and_keeps_the_old_journal():
    world = JournalWorld().open()
    for name in (A, B, *BEST_EFFORT):
        assert written(world, name)
    old = world.slots()
    world.disk.crash(Random(1))
    world.disk.capacity_bytes = 0
    world.open().check()
    assert world.slots() == old
    assert not written(world)
    world.disk.crash(Random(2))
    world.open().check()
    world.disk.capacity_bytes = None
    assert written(world), "the first write that finds space begins a journal"
    assert not set(old) & set(world.slots())
    world.crashed(Random(3)).check()


def test_a_start_with_any_amount_of_space_loses_nothing():
    for extra in range(0, 12_000, 240):
        random, world = Random(extra), JournalWorld()
        world.open()
        work(world, random, 60)
        world.disk.crash(random)
        world.disk.capacity_bytes = world.disk.used_bytes() + extra
        world.open().check()
        work(world, random, 30)
        restarted(world, random).check()


# --- failing syncs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("seed", range(2))
def test_whichever_sync_fails_nothing_acknowledged_is_lost_after_the_next_start(seed, error, strict_disk):
    """The failed sync leaves bytes that can be read and are not on the disk."""
    number, is_over = 0, False
    while not is_over:
        random, world = Random(seed), JournalWorld()
        errors = world.disk.sync_errors = SyncErrors(number, error)
        try:
            world.open()
            work(world, random)
            if number % 2:
                world.stop()
        except OSError as failed:
            assert failed.errno == error, "a start may fail"
        restarted(world, Random(number)).check()
        world.crashed(Random(number)).check()
        number, is_over = number + 1, not errors.is_over
    assert number > 30


@pytest.mark.parametrize("seed", range(2))
def test_whichever_sync_of_a_start_fails_the_next_start_loses_nothing(seed, strict_disk):
    number, is_over = 0, False
    while not is_over:
        random, world = Random(seed), JournalWorld()
        world.open()
        work(world, random, 80)
        world.disk.kill()
        errors = world.disk.sync_errors = SyncErrors(number, errno.EIO)
        try:
            world.open()
        except OSError as failed:
            assert failed.errno == errno.EIO
        else:
            world.check()
        restarted(world, Random(number)).check()
        number, is_over = number + 1, not errors.is_over
    assert number > 2


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("seed", range(2))
def test_whichever_sync_fails_after_a_start_on_a_full_disk_nothing_is_lost(seed, error, strict_disk):
    """The first write that finds space syncs the logs, and begins a journal instead of the old one."""
    number, is_over = 0, False
    while not is_over:
        random, world = Random(seed), JournalWorld()
        world.open()
        work(world, random, 80)
        world.disk.crash(random)
        world.disk.capacity_bytes = 0
        world.open().check()
        world.disk.capacity_bytes = None
        errors = world.disk.sync_errors = SyncErrors(number, error)
        work(world, random, 40)
        if number % 2:
            world.stop()
        restarted(world, Random(number)).check()
        number, is_over = number + 1, not errors.is_over
    assert number > 5


@pytest.fixture
def late_world(strict_disk):
    """A start on a full disk, which has space again: the first write syncs A, then B, and begins a journal."""
    world = JournalWorld().open()
    assert written(world, A)
    assert written(world, B)
    world.disk.crash(Random(1))
    world.disk.capacity_bytes = 0
    world.open().check()
    world.disk.capacity_bytes = None
    return world


@pytest.mark.parametrize("number", [2, 3])
def test_a_journal_that_cannot_begin_late_fails_every_log(late_world, number):
    """Neither the sync of the new file may fail nor that of its header."""
    world = late_world
    world.disk.sync_errors = SyncErrors(number, errno.EIO)
    assert not any(written(world, name) for name in world.names)
    assert all(owner.errors[-1].errno == errno.EIO for owner in world.owners.values())
    world.crashed(Random(2)).check()
    assert written(world)


def test_a_log_that_fails_when_the_journal_begins_late_fails_alone(late_world):
    world = late_world
    world.disk.sync_errors = [errno.EIO]
    assert written(world, B)
    assert not written(world, A)
    assert world.owners[A].errors[-1].errno == errno.EIO
    assert written(world, B)
    world.crashed(Random(2)).check()
    assert written(world, A)


def test_a_journal_that_cannot_be_synced_fails_every_log():
    """What the disk has of it is unknown. Reads of what was durable go on."""
    world = JournalWorld().open()
    assert written(world)
    world.write(A)
    world.disk.sync_errors = [errno.EIO]
    world.settle()
    assert all(owner.errors[-1].errno == errno.EIO for owner in world.owners.values())
    assert not any(written(world, name) for name in world.names)
    assert world.content(A) == [0]
    assert world.journal.idle
    world.crashed(Random(1)).check()
    assert written(world)


def fill_slots_without_checkpoint(world):
    """Fills a slot; the sync of the segments waits for the worker."""
    while not any(map(is_checkpoint, world.jobs)):
        world.write(A, 400)
        world.write(B, 400)
        world.work_except_checkpoints()


def test_a_segment_that_cannot_be_synced_fails_its_log_only_and_the_next_start_repairs_it():
    world = JournalWorld(segment_bytes=1 << 30).open()
    fill_slots_without_checkpoint(world)
    world.disk.sync_errors = [errno.EIO]
    world.settle()
    failed = [name for name in (A, B) if world.owners[name].log.failed]
    assert len(failed) == 1
    (other,) = {A, B} - set(failed)
    assert not written(world, *failed)
    for _ in range(30):
        assert written(world, other, 100)
    world.crashed(Random(1)).check()
    assert written(world, *failed)


@pytest.mark.parametrize("name", [A, *BEST_EFFORT])
def test_a_log_whose_segment_cannot_begin_fails_alone(name):
    world = JournalWorld().open()
    world.write(name, SEGMENT_BYTES)
    world.turn()
    world.work()
    world.disk.sync_errors = [errno.EIO]
    world.deliver()
    world.advance(WRITE_BEHIND_MS)
    assert world.owners[name].errors[-1].errno == errno.EIO
    assert written(world, B)
    assert not written(world, name)
    world.crashed(Random(1)).check()
    assert written(world, name)


def test_a_checkpoint_that_cannot_be_noted_fails_every_log():
    world = JournalWorld(segment_bytes=1 << 30).open()
    fill_slots_without_checkpoint(world)
    world.work()
    world.deliver()
    world.disk.sync_errors = [errno.EIO]
    world.settle()
    assert all(owner.errors[-1].errno == errno.EIO for owner in world.owners.values())
    world.crashed(Random(1)).check()


def test_the_journal_of_an_orderly_stop_is_removed_with_all_its_files():
    world = JournalWorld().open()
    while len(world.slots()) < 2:
        assert written(world, A, 400)
    assert world.journal.has_slots
    world.stop()
    assert not world.journal.has_slots
    assert (world.slots(), world.disk.files_open) == ([], 0)


def test_what_is_written_before_the_journal_begins_becomes_durable_then():
    world = JournalWorld().open(early=[A])
    assert not world.history[-1].is_durable
    world.settle()
    assert world.history[-1].is_durable


def fail_a_segment(world):
    """One of the two logs fails; returns the name of it and of the other."""
    fill_slots_without_checkpoint(world)
    world.disk.sync_errors = [errno.EIO]
    world.settle()
    (failed,) = [name for name in (A, B) if world.owners[name].log.failed is not None]
    return failed, A if failed == B else B


@pytest.mark.parametrize("durability", ["fsync", "write"])
@pytest.mark.parametrize("ends", ["kill", "power cut", "stop"])
def test_the_other_logs_go_on_when_a_segment_has_failed_and_the_next_start_repairs_it(durability, ends):
    """What its segments lack is set aside, so that the slots can be used again: many more than there are."""
    world = JournalWorld(durability, segment_bytes=1 << 30).open()
    failed, other = fail_a_segment(world)
    for _ in range(40 * SLOTS_MAX):
        assert written(world, other, 400)
    world.advance(WRITE_BEHIND_MS)
    assert world.journal.checkpoints > 2 * SLOTS_MAX
    assert len(world.slots()) <= 2 * SLOTS_MAX
    assert not written(world, failed)
    if ends == "stop":
        world.stop()
    for turn in world.history:
        turn.is_durable = turn.is_durable and (durability == "fsync" or ends != "power cut")
    (world.crashed(Random(1)) if ends == "power cut" else world.killed()).check()
    assert written(world, failed)
    world.stop()
    assert world.slots() == []


def write_until_it_is_set_aside(world, other):
    """Writes to another log until the journal is about to set the failed log's batches aside."""
    for _ in range(200):
        if any(map(is_set_aside, world.jobs)):
            break
        world.write(other, 400)
        world.turn()
        world.work()
        world.deliver()


def test_what_cannot_be_set_aside_keeps_its_slot_until_it_can(caplog):
    """No write waits for ever: when all slots are full, writes get an error, and are taken again when there is space."""
    world = JournalWorld(segment_bytes=1 << 30).open()
    failed, other = fail_a_segment(world)
    write_until_it_is_set_aside(world, other)
    world.disk.capacity_bytes = world.disk.used_bytes()
    for _ in range(200):
        if not written(world, other, 400):
            break
    assert world.owners[other].errors[-1].errno == errno.ENOSPC
    assert world.journal.idle
    assert "event=journal_not_set_aside" in caplog.text
    world.disk.capacity_bytes = None
    world.advance(RETRY_MS)
    world.settle()
    assert all(written(world, other, 400) for _ in range(40 * SLOTS_MAX))
    world.crashed(Random(1)).check()
    assert written(world, failed)


def test_a_write_that_waits_for_a_slot_is_refused_when_none_becomes_free():
    """What the failed log lacks cannot be set aside, so that its slot cannot be used again."""
    world = JournalWorld(segment_bytes=1 << 30).open()
    fill_slots_without_checkpoint(world)
    while world.history[-1].is_durable:
        world.write(A, 400)
        world.write(B, 400)
        world.work_except_checkpoints()
    world.disk.capacity_bytes = world.disk.used_bytes()
    world.disk.sync_errors = [errno.EIO]
    world.settle()
    assert [error.errno for error in world.owners[B].errors] == [errno.ENOSPC]
    assert world.history[-1].is_refused
    world.disk.capacity_bytes = None
    assert written(world, B, 400)
    world.crashed(Random(1)).check()


def test_what_could_not_be_set_aside_is_tried_again_without_another_write():
    world = JournalWorld(segment_bytes=1 << 30).open()
    _, other = fail_a_segment(world)
    write_until_it_is_set_aside(world, other)
    held = [job for job in world.jobs if is_set_aside(job)]
    world.jobs = [job for job in world.jobs if not is_set_aside(job)]
    world.settle()
    world.advance(WRITE_BEHIND_MS)  # nothing is left that would be written behind
    world.jobs += held
    world.disk.capacity_bytes = world.disk.used_bytes()
    world.settle()
    before = world.journal.checkpoints
    world.disk.capacity_bytes = None
    world.advance(RETRY_MS)
    world.settle()
    assert world.journal.checkpoints > before


def is_set_aside(job):
    return job[0].__qualname__.startswith("Journal._segments_synced.")


class QuotaFile(SimulatedFile):
    """A file that cannot be written while its quota is exceeded."""

    __slots__ = ("_path",)

    def __init__(self, quota_disk, node, path):
        super().__init__(quota_disk, node)
        self._path = path

    def write_some(self, data):
        self._disk.check_quota(self._path)
        return super().write_some(data)

    def write_at(self, offset, data):
        self._disk.check_quota(self._path)
        super().write_at(offset, data)


class QuotaDisk(disk.SimulatedDisk):
    """A disk with a quota for files whose path has `of` in it; at first those of the event logs."""

    is_exceeded = False
    error = errno.EDQUOT
    of = BEST_EFFORT[0]

    def open(self, path):
        super().open(path).close()
        return QuotaFile(self, self._file(path), path)

    def check_quota(self, path):
        if self.is_exceeded and self.of in path:
            raise OSError(self.error, "quota")


@pytest.fixture
def quota_world():
    world = JournalWorld(segment_bytes=1 << 30, disk=QuotaDisk())
    world.disk.make_folder(FOLDER)
    world.disk.sync_folder(".")
    return world.open()


def test_event_logs_without_space_hold_up_nobody(quota_world):
    """They are given up when the journal would refuse a write otherwise, and their owners learn what is lost."""
    world, (events,) = quota_world, BEST_EFFORT
    world.disk.is_exceeded = True
    assert written(world, events)
    for _ in range(40 * SLOTS_MAX):
        assert written(world, A, 400)
        world.advance(WRITE_BEHIND_MS)
    assert world.owners[events].errors
    assert not written(world, events)
    world.disk.is_exceeded = False
    world.crashed(Random(1)).check()
    assert written(world, events), "a start writes events again"


@pytest.mark.parametrize(("size", "has_room"), [(10, True), (FILE_BYTES, False)])
def test_on_a_full_disk_with_full_slots_a_write_is_refused_if_it_needs_a_slot(quota_world, size, has_room):
    """It was taken before the disk was full."""
    world, (events,) = quota_world, BEST_EFFORT
    world.disk.is_exceeded = True
    assert written(world, events)
    while len(world.slots()) < SLOTS_MAX or world.journal._free:
        assert written(world, A, 400)
    world.write(A, FILE_BYTES // 2)
    world.turn()
    world.write(A, size)
    world.disk.capacity_bytes = world.disk.used_bytes()
    world.advance(WRITE_BEHIND_MS)
    world.settle()
    assert [turn.is_durable for turn in world.history[-2:]] == [True, has_room]
    assert has_room or "the journal is full" in str(world.owners[A].errors[0])
    world.disk.capacity_bytes = None
    assert written(world)
    world.killed().check()


def test_event_logs_that_cannot_be_written_fail_with_the_next_checkpoint(quota_world):
    world, (events,) = quota_world, BEST_EFFORT
    world.disk.is_exceeded, world.disk.error = True, errno.EIO
    assert written(world, events)
    for _ in range(10 * SLOTS_MAX):
        assert written(world, A, 400)
    assert [error.errno for error in world.owners[events].errors] == [errno.EIO]
    assert not written(world, events)


def test_event_logs_without_space_for_a_while_lose_nothing(quota_world):
    world, (events,) = quota_world, BEST_EFFORT
    world.disk.is_exceeded = True
    for _ in range(4):
        assert written(world, events)
        assert written(world, A, 400)
        world.advance(WRITE_BEHIND_MS)
    world.disk.is_exceeded = False
    world.advance(RETRY_MS)
    assert not world.owners[events].errors
    assert len(world.content(events)) == 4
    world.crashed(Random(1)).check()


def test_a_start_goes_on_without_event_logs_that_have_no_space(quota_world):
    world, (events,) = quota_world, BEST_EFFORT
    for name in world.names:
        assert written(world, name)
    world.disk.kill()
    world.disk.is_exceeded = True
    world.open()
    assert written(world, A)
    assert not written(world, events)
    world.lossy.add(events)
    world.check()


@pytest.fixture
def behind_world(quota_world):
    """A server was killed before anything was written to the segments."""
    for name in quota_world.names:
        assert written(quota_world, name)
    quota_world.disk.kill()
    quota_world.disk.is_exceeded = True
    return quota_world


def test_a_start_without_space_for_a_log_that_may_lose_nothing_waits_for_space(behind_world):
    world = behind_world
    world.disk.of = A
    world.open()
    assert not written(world, B)
    world.disk.is_exceeded = False
    assert written(world, B)
    assert written(world, A)
    world.crashed(Random(1)).check()


def test_a_start_that_cannot_write_a_segment_fails_and_can_be_tried_again(behind_world):
    world = behind_world
    world.disk.of, world.disk.error = A, errno.EIO
    with pytest.raises(OSError, match="quota") as failed:
        world.open()
    assert failed.value.errno == errno.EIO
    world.disk.is_exceeded = False
    world.killed().check()


def test_a_start_goes_on_without_an_event_log_that_cannot_be_written_and_says_why(behind_world):
    world, (events,) = behind_world, BEST_EFFORT
    world.disk.error = errno.EIO
    world.open()
    assert [error.errno for error in world.owners[events].errors] == [errno.EIO]
    assert written(world, A)


def test_a_slot_that_cannot_begin_refuses_its_entry_and_begins_with_the_next_one(quota_world):
    world = quota_world
    world.disk.of = "coordinator.journal."
    while len(world.slots()) < 2:
        assert written(world, A, 400)
    world.disk.is_exceeded = True
    assert not written(world, A, 6_000)
    assert [error.errno for error in world.owners[A].errors] == [errno.EDQUOT]
    world.disk.is_exceeded = False
    assert written(world, A, 6_000)
    assert world.journal.checkpoints == 1
    world.crashed(Random(1)).check()


def test_commits_that_wait_for_a_checkpoint_have_filled_all_slots_that_there_may_be():
    world = JournalWorld(segment_bytes=1 << 30).open()
    fill_slots_without_checkpoint(world)
    while world.history[-1].is_durable:
        world.write(A, 400)
        world.work_except_checkpoints()
    assert len(world.slots()) == SLOTS_MAX


def test_a_log_that_is_opened_after_the_journal_has_failed_is_refused_too():
    world = JournalWorld().open()
    world.write(A)
    world.disk.sync_errors = [errno.EIO]
    world.settle()
    late = "groups-2"
    world.owners[late] = Owner(world, late, open_log(world.disk, f"{FOLDER}/{late}", world.settings))
    assert not written(world, late)
    assert [error.errno for error in world.owners[late].errors] == [errno.EIO]


def test_commits_that_wait_for_a_checkpoint_that_fails_are_refused_at_once():
    """Otherwise an orderly stop would wait for them for ever."""
    world = JournalWorld(segment_bytes=1 << 30).open()
    fill_slots_without_checkpoint(world)
    while world.history[-1].is_durable:
        world.write(A, 400)
        world.work_except_checkpoints()
    assert not world.history[-1].is_durable
    world.disk.sync_errors = [errno.EIO]
    world.settle()
    assert world.journal.idle
    assert world.history[-1].is_durable or world.history[-1].is_refused
    world.stop()
    world.crashed(Random(1)).check()

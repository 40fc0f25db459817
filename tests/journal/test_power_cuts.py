"""Power cuts, kills and stops at every operation of the disk: what was reported as durable is there, and turns stay whole.

Each scenario is a server at work: turns of several logs, slots that become full, checkpoints, segments that are written behind
and become full, an orderly stop. It is repeated with a power cut at each of its disk operations in turn.
"""

from random import Random

import pytest

from coordinator.journal.journal import SLOTS_MAX
from coordinator_lab.simulation.disk import PowerCut
from tests.journal.journal_world import LOGS, JournalWorld, work

pytestmark = pytest.mark.long


def run(world, random, cut=None, *, stops=True):
    """Opens, works and stops, with a power cut after so many operations; returns the number of operations."""
    before = world.disk.operations
    if cut is not None:
        world.disk.cut_after(cut)
    try:
        world.open()
        work(world, random)
        if stops:
            world.stop()
    except PowerCut:
        pass
    world.disk.cut_never()
    return world.disk.operations - before


def restart_with_cuts(world, random, end):
    """Starts until a start succeeds; the power goes again during some of them. `end`: ends a process."""
    for _ in range(random.randrange(3)):
        end()
        world.disk.cut_after(random.randrange(40))
        try:
            world.open()
        except PowerCut:
            continue
        world.disk.cut_never()
        world.check()
    end()
    world.disk.cut_never()
    world.open().check()


@pytest.mark.parametrize("seed", range(2))
def test_a_power_cut_at_any_operation_keeps_what_was_durable_and_whole_turns(seed):
    operations = run(JournalWorld(), Random(seed))
    for cut in range(operations):
        world = JournalWorld()
        run(world, Random(seed), cut)
        world.crashed(Random(cut)).check()


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_a_power_cut_at_any_operation_of_a_start_loses_nothing_and_keeps_turns_whole(seed, is_killed):
    """The start appends to the segments what they lack, and is itself interrupted at each operation.

    After a kill, the last entry of the journal may be in the page cache only.
    """

    def ended():
        world = JournalWorld()
        run(world, Random(seed), 150 + seed, stops=False)
        if is_killed:
            world.disk.kill()
        else:
            world.disk.crash(Random(seed))
        return world

    world = ended()
    before = world.disk.operations
    world.open().check()
    for cut in range(world.disk.operations - before):
        world = ended()
        world.disk.cut_after(cut)
        with pytest.raises(PowerCut):
            world.open()
        world.crashed(Random(cut)).check()


def test_an_entry_that_only_the_page_cache_had_is_durable_before_a_segment_gets_a_part_of_it():
    """The server is killed during the sync of an entry; the power fails when the next start has settled one of the logs."""
    world = JournalWorld().open()
    world.write("groups-0")
    world.write("groups-1")
    world.turn()
    world.disk.kill()
    before = world.disk.operations
    world.open().check()
    for cut in range(world.disk.operations - before):
        for seed in range(5):
            world = JournalWorld().open()
            world.write("groups-0")
            world.write("groups-1")
            world.turn()
            world.disk.kill()
            world.disk.cut_after(cut)
            with pytest.raises(PowerCut):
                world.open()
            world.crashed(Random(seed)).check()


@pytest.mark.parametrize("block", range(2))
def test_several_power_cuts_in_a_row_lose_nothing_that_was_durable(block):
    """Each of them at a random operation, of a server at work or of a start."""
    for seed in range(block * 20, block * 20 + 20):
        random, world = Random(seed), JournalWorld()
        for _ in range(3):
            run(world, random, random.randrange(400))
            restart_with_cuts(world, random, lambda world=world, random=random: world.disk.crash(random))
            world.disk.crash(random)


@pytest.mark.parametrize("durability", ["write", "fsync"])
def test_a_kill_at_any_operation_loses_nothing_that_was_acknowledged(durability):
    operations = run(JournalWorld(durability), Random(durability))
    for cut in range(operations):
        world = JournalWorld(durability)
        run(world, Random(durability), cut)
        world.killed().check()


def test_several_kills_in_a_row_lose_nothing_that_was_acknowledged():
    for seed in range(20):
        random, world = Random(seed), JournalWorld("write")
        for _ in range(3):
            run(world, random, random.randrange(400))
            restart_with_cuts(world, random, world.disk.kill)
            world.disk.kill()


def test_a_power_cut_without_syncs_may_cost_the_last_turns_and_the_server_starts_with_what_is_left():
    """With durability "write" each log has a part of what was written, from the beginning on."""
    for seed in range(50):
        random, world = Random(seed), JournalWorld("write")
        run(world, random, random.randrange(60, 400), stops=False)
        world.crashed(random)
        for name in LOGS:
            written = [number for turn in world.history for number in turn.records.get(name, ())]
            found = world.content(name)
            assert found == written[: len(found)]


def test_after_an_orderly_stop_no_journal_is_left_and_the_logs_have_everything():
    for seed in range(10):
        random, world = Random(seed), JournalWorld()
        run(world, random)
        assert world.slots() == []
        assert world.disk.files_open == 0
        for turn in world.history:
            turn.is_durable = True
        world.crashed(random).check()


def fill_all_slots(world):
    """Works until a commit waits for a checkpoint, because the sync of the segments takes very long."""
    world.open()
    while not world.history or world.history[-1].is_durable:
        world.write("groups-0", 1_000)
        world.write("groups-1", 400)
        world.turn()
        world.work_except_checkpoints()
    assert len(world.slots()) == SLOTS_MAX
    assert world.journal.checkpoints == 0


def test_a_power_cut_while_a_commit_waits_for_a_checkpoint_loses_nothing_that_was_durable():
    """The slot is used again as soon as it is durable that the entries in it are not needed."""
    world = JournalWorld()
    fill_all_slots(world)
    before = world.disk.operations
    world.settle()
    assert world.journal.checkpoints
    assert world.history[-1].is_durable
    for cut in range(world.disk.operations - before):
        for seed in range(10):
            world = JournalWorld()
            fill_all_slots(world)
            world.disk.cut_after(cut)
            with pytest.raises(PowerCut):
                world.settle()
            world.crashed(Random(seed)).check()


@pytest.mark.parametrize("block", range(2))
def test_a_power_cut_after_a_start_that_followed_a_kill_loses_nothing(block):
    """The page cache had survived the kill, so the start found everything in the segments; it must still sync them."""
    for seed in range(block * 30, block * 30 + 30):
        random, world = Random(seed), JournalWorld()
        run(world, random, random.randrange(100, 300), stops=False)
        world.killed().check()
        world.crashed(random).check()

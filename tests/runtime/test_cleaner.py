"""The cleaner shrinks a shard's log in the background, without any visible effect."""

import errno

from coordinator.runtime.cleaner import Cleaner
from tests.runtime.shard_world import ShardWorld, committed, is_success, send_commit


def cleaned_world():
    world = ShardWorld(segment_bytes=4_000)
    for n in range(200):
        send_commit(world, n, group=f"g{n % 3}")
        world.settle()
        if n % 10 == 9:
            world.write_behind()
    cleaner = Cleaner(
        lambda: [world.shard.log],
        world.clock,
        run_in_thread=world.run,
        soon=world.soon.append,
        schedule=world.schedule,
        backoff_ms=15_000,
    )
    return world, cleaner


def test_a_log_of_overwritten_commits_shrinks_and_loads_to_the_same_offsets():
    world, cleaner = cleaned_world()
    before = world.shard.log.size_bytes
    world.advance(15_000)
    world.settle()
    assert cleaner.cleanings == 1
    assert world.shard.log.size_bytes < before / 4
    world.restart(world.disk.kill)
    assert [committed(world, f"g{n}") for n in range(3)] == [198, 199, 197]


def test_commits_between_the_steps_of_a_cleaning_are_kept():
    world, cleaner = cleaned_world()
    world.advance(15_000)
    offset = 1_000
    while not cleaner.cleanings:
        world.turn()
        world.finish_syncs()
        target = send_commit(world, offset, group="g0")
        world.settle()
        assert is_success(target)
        offset += 1
    world.restart(world.disk.kill)
    assert committed(world, "g0") == offset - 1


def test_a_cleaning_without_disk_space_leaves_the_log_unchanged_and_is_retried():
    world, cleaner = cleaned_world()
    world.disk.sync_errors.append(errno.ENOSPC)
    world.advance(15_000)
    world.settle()
    assert cleaner.cleanings == 0
    assert committed(world, "g0") == 198
    world.advance(15_000)
    world.settle()
    assert cleaner.cleanings == 1
    world.restart(world.disk.kill)
    assert committed(world, "g0") == 198


def test_a_stop_during_a_cleaning_leaves_an_intact_log():
    world, cleaner = cleaned_world()
    world.advance(15_000)
    world.turn()
    cleaner.stop()
    world.settle()
    world.restart(world.disk.kill)
    assert [committed(world, f"g{n}") for n in range(3)] == [198, 199, 197]

"""What every engine promises to a worker."""

import asyncio

import pytest

from coordinator.cluster.engine.engine import Claim, EngineUnavailable, Fenced, Owner, claim_one
from tests.cluster.engine.contract import parts_of, pieces, replayed, worker

LOG, OTHER = "__consumer_offsets-0", "__transaction_state-7"


async def test_the_first_claim_of_a_log_finds_it_empty(connect):
    engine = await connect()
    claim = await claim_one(engine, LOG, worker(1))
    assert (claim.log, claim.epoch, claim.next_sequence, claim.covered) == (LOG, 1, 0, 0)
    assert await replayed(engine, claim) == []


async def test_a_new_owner_replays_what_the_old_one_appended_in_order(connect):
    old, new = await connect(), await connect()
    claim = await claim_one(old, LOG, worker(1))
    assert await old.append(pieces(claim, b"a", b"b")) == frozenset()
    assert await old.append(pieces(claim, b"", b"c" * 5000, first=2)) == frozenset()
    taken = await claim_one(new, LOG, worker(2))
    assert (taken.epoch, taken.next_sequence) == (2, 4)
    assert await replayed(new, taken) == [b"a", b"b", b"", b"c" * 5000]


async def test_an_append_of_an_old_owner_leaves_nothing_and_says_so(connect):
    old, new = await connect(), await connect()
    claim = await claim_one(old, LOG, worker(1))
    taken = await claim_one(new, LOG, worker(2))
    assert await old.append(pieces(claim, b"late")) == {LOG}
    assert await new.append(pieces(taken, b"new")) == frozenset()
    again = await claim_one(old, LOG, worker(1))
    assert await replayed(old, again) == [b"new"]


async def test_a_fenced_piece_does_not_keep_the_others_of_its_append_out(connect):
    old, new = await connect(), await connect()
    lost, kept = await claim_one(old, LOG, worker(1)), await claim_one(old, OTHER, worker(1))
    await claim_one(new, LOG, worker(2))
    assert await old.append(pieces(lost, b"x", b"y") + pieces(kept, b"z")) == {LOG}
    assert await replayed(old, await claim_one(old, LOG, worker(1))) == []
    assert await replayed(old, await claim_one(old, OTHER, worker(1))) == [b"z"]


async def test_a_claim_that_was_fenced_takes_nothing_any_more(connect):
    old, new = await connect(), await connect()
    claim = await claim_one(old, LOG, worker(1))
    await claim_one(new, LOG, worker(2))
    assert await old.append(pieces(claim, b"x")) == {LOG}
    assert await old.append(pieces(claim, b"y", first=1)) == {LOG}
    with pytest.raises(Fenced):
        await old.snapshot(claim, 0, parts_of([]))


async def test_a_piece_whose_sequence_is_taken_is_not_appended_twice(connect):
    engine = await connect()
    claim = await claim_one(engine, LOG, worker(1))
    assert await engine.append(pieces(claim, b"a")) == frozenset()
    assert await engine.append(pieces(claim, b"a")) == {LOG}
    assert await replayed(engine, await claim_one(engine, LOG, worker(1))) == [b"a"]


async def test_of_two_claims_that_saw_the_same_owner_one_wins(connect):
    first, second = await connect(), await connect()
    outcomes = await asyncio.gather(
        claim_one(first, LOG, worker(1), seen=0), claim_one(second, LOG, worker(2), seen=0), return_exceptions=True
    )
    assert sorted(isinstance(outcome, Fenced) for outcome in outcomes) == [False, True]
    epoch = (await first.owners())[LOG].epoch
    assert epoch == 1
    assert (await claim_one(second, LOG, worker(2), seen=epoch)).epoch == 2


async def test_claims_of_many_logs_are_answered_one_by_one(connect):
    """A log that somebody else was quicker to claim keeps nobody from the others; each claim counts."""
    old, new = await connect(), await connect()
    third = "__consumer_offsets-1"
    kept = await claim_one(old, OTHER, worker(1))
    taken = await claim_one(old, third, worker(1))
    assert await old.append(pieces(kept, b"a") + pieces(taken, b"b", b"c")) == frozenset()
    found = await new.claim_all(worker(2), {third: None, LOG: 0, OTHER: 0})
    assert isinstance(found[OTHER], Fenced)
    assert [found[LOG], found[third]] == [Claim(LOG, 1, 0, 0), Claim(third, 2, 2, 0)]
    assert await old.append(pieces(kept, b"d", first=1) + pieces(taken, b"e", first=2)) == {third}
    assert await new.append(pieces(found[LOG], b"f") + pieces(found[third], b"g")) == frozenset()
    owners = await old.owners()
    assert {log: (owners[log].epoch, owners[log].worker) for log in (LOG, OTHER, third)} == {
        LOG: (1, worker(2)), OTHER: (1, worker(1)), third: (2, worker(2)),
    }  # fmt: skip
    await new.release([found[LOG], found[third]])
    assert await replayed(old, await claim_one(old, third, worker(1))) == [b"b", b"c", b"g"]


@pytest.mark.snapshots
async def test_a_replay_begins_with_the_newest_snapshot(connect):
    engine, other = await connect(), await connect()
    claim = await claim_one(engine, LOG, worker(1))
    await engine.append(pieces(claim, *[b"%d" % number for number in range(10)]))
    await engine.snapshot(claim, 4, parts_of([b"early"]))
    await engine.snapshot(claim, 7, parts_of([b"first part", b"second part"]))
    taken = await claim_one(other, LOG, worker(2))
    assert (taken.covered, taken.next_sequence) == (7, 10)
    assert await replayed(other, taken) == [b"first part", b"second part", b"7", b"8", b"9"]


@pytest.mark.snapshots
async def test_a_snapshot_of_everything_leaves_an_empty_tail(connect):
    engine = await connect()
    claim = await claim_one(engine, LOG, worker(1))
    await engine.append(pieces(claim, b"a", b"b"))
    await engine.snapshot(claim, 2, parts_of([]))
    taken = await claim_one(engine, LOG, worker(1))
    assert (taken.covered, taken.next_sequence) == (2, 2)
    assert await replayed(engine, taken) == []
    assert await engine.append(pieces(taken, b"c")) == frozenset()
    assert await replayed(engine, await claim_one(engine, LOG, worker(1))) == [b"c"]


@pytest.mark.snapshots
async def test_a_snapshot_that_breaks_off_changes_nothing(connect):
    engine = await connect()
    claim = await claim_one(engine, LOG, worker(1))
    await engine.append(pieces(claim, b"a", b"b"))

    async def breaks_off():
        yield b"half"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await engine.snapshot(claim, 2, breaks_off())
    await engine.snapshot(claim, 1, parts_of([b"whole"]))
    assert await replayed(engine, await claim_one(engine, LOG, worker(1))) == [b"whole", b"b"]


@pytest.mark.snapshots
async def test_an_old_owner_cannot_replace_the_snapshot(connect):
    old, new = await connect(), await connect()
    claim = await claim_one(old, LOG, worker(1))
    await old.append(pieces(claim, b"a", b"b"))
    taken = []

    async def while_another_claims():
        yield b"old"
        taken.append(await claim_one(new, LOG, worker(2)))
        yield b"older"

    with pytest.raises(Fenced):
        await old.snapshot(claim, 2, while_another_claims())
    assert await replayed(new, taken[0]) == [b"a", b"b"]


@pytest.mark.snapshots
async def test_a_replay_of_an_old_owner_ends(connect):
    old, new = await connect(), await connect()
    claim = await claim_one(old, LOG, worker(1))
    await old.append(pieces(claim, b"a"))
    again = await claim_one(old, LOG, worker(1))
    taken = await claim_one(new, LOG, worker(2))
    await new.snapshot(taken, 1, parts_of([b"A"]))
    with pytest.raises(EngineUnavailable):
        await replayed(old, again)


@pytest.mark.snapshots
async def test_long_logs_and_snapshots_are_replayed_whole(connect):
    engine = await connect()
    claim = await claim_one(engine, LOG, worker(1))
    parts, data = [b"p%d" % number for number in range(600)], [b"d%d" % number for number in range(1200)]
    await engine.append(pieces(claim, b"covered"))
    await engine.snapshot(claim, 1, parts_of(parts))
    await engine.append(pieces(claim, *data, first=1))
    assert await replayed(engine, await claim_one(engine, LOG, worker(1))) == parts + data


async def test_released_logs_have_no_owner_and_take_nothing(connect):
    engine = await connect()
    claim, kept = await claim_one(engine, LOG, worker(1)), await claim_one(engine, OTHER, worker(1))
    assert await engine.owners() == {LOG: Owner(1, worker(1)), OTHER: Owner(1, worker(1))}
    await engine.release([claim])
    owners = await engine.owners()
    assert owners[LOG].worker is None
    assert owners[OTHER] == Owner(1, worker(1))
    assert await engine.append(pieces(claim, b"late") + pieces(kept, b"x")) == {LOG}
    assert (await claim_one(engine, LOG, worker(2), seen=owners[LOG].epoch)).next_sequence == 0


async def test_a_release_of_an_old_owner_changes_nothing(connect):
    old, new = await connect(), await connect()
    claim = await claim_one(old, LOG, worker(1))
    await claim_one(new, LOG, worker(2))
    await old.release([claim])
    assert await new.owners() == {LOG: Owner(2, worker(2))}


async def test_a_worker_lives_until_it_leaves_or_no_longer_beats(connect):
    first, second = await connect(beat_timeout_ms=60_000), await connect(beat_timeout_ms=60_000)
    await first.beat(worker(2))
    await second.beat(worker(1))
    assert await first.workers() == [worker(1), worker(2)]
    await second.leave(worker(1))
    assert await first.workers() == [worker(2)]
    moved = worker(2)._replace(host="elsewhere")
    await first.beat(moved)
    assert await second.workers() == [moved]
    impatient = await connect(beat_timeout_ms=300)
    async with asyncio.timeout(20):
        while await impatient.workers():  # noqa: ASYNC110 - no engine reports a death
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("change", ["beat", "mark", "claim", "release", "leave"])
async def test_changes_of_workers_and_owners_are_reported(connect, change):
    """And the next beat shows them to whom no report has reached."""
    watching, acting = await connect(), await connect()
    claim = await claim_one(acting, OTHER, worker(1))
    await acting.beat(worker(1))
    before = await watching.beat(worker(3))
    acts = {
        "beat": lambda: acting.beat(worker(2)),
        "mark": lambda: acting.beat(worker(1).marked(is_leaving=True, wants={LOG: 1})),
        "claim": lambda: claim_one(acting, LOG, worker(1)),
        "release": lambda: acting.release([claim]),
        "leave": lambda: acting.leave(worker(1)),
    }
    changed = asyncio.Event()
    watching.on_change = changed.set
    await asyncio.sleep(0.1)  # what was reported of the beats before
    changed.clear()
    await acts[change]()
    await asyncio.wait_for(changed.wait(), 20)
    after = await watching.beat(worker(3))
    assert (after.epochs, others(after)) != (before.epochs, others(before))
    assert others(after) == [each for each in await watching.workers() if each != worker(3)]
    assert after.epochs == sum(owner.epoch for owner in (await watching.owners()).values())


def others(summary):
    return [each for each in summary.living if each != worker(3)]


async def test_a_beat_says_when_the_next_worker_is_dead(connect):
    dead, alive = await connect(beat_timeout_ms=300), await connect(beat_timeout_ms=300)
    assert (await alive.beat(worker(2))).death_ms is None
    summary = await alive.beat(worker(2))
    async with asyncio.timeout(20):
        while summary.death_ms is None:  # on a busy machine it is dead before the other beats
            await dead.beat(worker(1))
            summary = await alive.beat(worker(2))
    assert 0 < summary.death_ms < 301
    async with asyncio.timeout(20):
        while worker(1) in summary.living:
            await asyncio.sleep(max(0.01, summary.death_ms / 1000))
            summary = await alive.beat(worker(2))
    assert summary.death_ms is None


async def test_a_closed_engine_takes_nothing(connect):
    engine = await connect()
    await engine.close()
    with pytest.raises(EngineUnavailable):
        await claim_one(engine, LOG, worker(1))


async def test_anybody_reads_the_tail_of_a_log(connect):
    writer, reader = await connect(), await connect()
    assert await reader.tail(LOG, 0) == []
    claim = await claim_one(writer, LOG, worker(1))
    assert await writer.append(pieces(claim, b"a", b"b", b"c")) == frozenset()
    assert await reader.tail(LOG, 1) == [(1, b"b"), (2, b"c")]
    assert await reader.tail(LOG, 3) == []
    assert await reader.tail(LOG, 2) == [(2, b"c")]
    assert await writer.append(pieces(claim, b"d", first=3)) == frozenset()
    assert await reader.tail(LOG, 2) == [(2, b"c"), (3, b"d")]


async def read(engine, log):
    return [each async for each in engine.read(log)]


@pytest.mark.snapshots
async def test_anybody_reads_a_log_from_its_newest_snapshot_on(connect):
    writer, reader = await connect(), await connect()
    assert await read(reader, LOG) == []
    claim = await claim_one(writer, LOG, worker(1))
    assert await read(reader, LOG) == []
    assert await writer.append(pieces(claim, b"a", b"b", b"c", b"d")) == frozenset()
    assert await read(reader, LOG) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    await writer.snapshot(claim, 3, parts_of([b"ab", b"c"]))
    assert await read(reader, LOG) == [(2, b"ab"), (2, b"c"), (3, b"d")]
    assert await reader.tail(LOG, 1) == [(3, b"d")]
    assert await reader.tail(LOG, 3) == [(3, b"d")]
    assert await writer.append(pieces(claim, b"e", first=4)) == frozenset()
    assert await reader.append(pieces(await claim_one(reader, LOG, worker(2)), b"f")) == frozenset()


async def test_a_log_whose_beginning_was_removed_is_read_from_there(connect):
    writer, reader = await connect(), await connect()
    claim = await claim_one(writer, LOG, worker(1))
    await writer.append(pieces(claim, b"a", b"b", b"c"))
    await writer.snapshot(claim, 2, parts_of([]))
    assert await read(reader, LOG) == [(2, b"c")]


@pytest.mark.snapshots
async def test_a_read_that_a_snapshot_overtakes_ends_with_an_error(connect):
    """It yields nothing twice and leaves nothing out; the reader begins again, unless all was fetched before."""
    writer, reader = await connect(), await connect()
    claim = await claim_one(writer, LOG, worker(1))
    data = [b"%d" % number for number in range(2_000)]
    await writer.append(pieces(claim, *data))
    reading = reader.read(LOG)
    assert await anext(reading) == (0, b"0")
    await writer.snapshot(claim, 1_999, parts_of([b"all"]))
    got = [b"0"]
    try:
        async for _, each in reading:
            got.append(each)
    except EngineUnavailable as error:
        assert "snapshot" in str(error)
        assert got == data[: len(got)]
    else:
        assert got == data
    assert await read(reader, LOG) == [(1_998, b"all"), (1_999, b"1999")]


async def test_a_reader_needs_an_existing_cluster_and_no_replication(connect):
    writer = await connect()
    claim = await claim_one(writer, LOG, worker(1))
    await writer.append(pieces(claim, b"a"))
    reader = await connect(reads_only=True, replication="required")
    assert await read(reader, LOG) == [(0, b"a")]
    assert [*await reader.owners()] == [LOG]

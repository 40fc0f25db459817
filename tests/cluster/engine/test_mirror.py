"""A folder that follows the logs of an engine has every piece, in a shape that readers of a growing log understand."""

import pytest

from coordinator.cluster.engine.engine import Engine, EngineSettings, claim_one
from coordinator.cluster.workers.joining import CLUSTER_LOG
from coordinator.log.checkpoint import Checkpoint
from coordinator.operations import journal_access, log_check
from coordinator.operations.journal_access import JournalFailed
from coordinator.operations.journal_mirror import JournalMirror, mirrored
from coordinator.operations.log_folders import find_log_folders
from coordinator.server import CannotStart
from coordinator.world.disk import RealDisk
from coordinator_lab.simulation.memory_engine import Delivery, MemoryEngine, MemoryStore
from tests.cluster.engine.contract import parts_of, pieces, worker
from tests.cluster.engine.copies import EVENTS, STATE, batch, offsets
from tests.support.waiting import wait_until

pytestmark = pytest.mark.snapshots
in_memory = pytest.mark.parametrize("connect", ["memory"], indirect=True)
"""For what does not depend on the engine."""


class Journal:
    """An engine with one shard, whose state and events grow together."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.next = 0

    async def begin(self, cluster_id: bytes = b"cluster-of-the-test") -> "Journal":
        identity = await claim_one(self.engine, CLUSTER_LOG, worker(1))
        assert not await self.engine.append(pieces(identity, cluster_id))
        self.state = await claim_one(self.engine, STATE, worker(1))
        self.events = await claim_one(self.engine, EVENTS, worker(1))
        return self

    async def grow(self, count: int = 1) -> None:
        """Appends batches of two records of state and of one event."""
        for number in range(self.next, self.next + count):
            state = pieces(self.state, batch(2 * number, "a", "b"))
            events = pieces(self.events, batch(number, "g"))
            assert not await self.engine.append([*state, *events])
            self.state = self.state._replace(next_sequence=self.state.next_sequence + 1)
            self.events = self.events._replace(next_sequence=self.events.next_sequence + 1)
        self.next += count


def in_folder(folder, log: str) -> list[int]:
    """The offsets in a log of the folder."""
    [found] = [each for each in find_log_folders(folder) if each.name == log]
    read: list[int] = []
    assert list(found.walk(lambda segment, header, at: read.extend(offsets(segment.batch(at, header))))) == []
    return read


@pytest.fixture
async def journal(connect):
    return await Journal(await connect(append_timeout_ms=30_000)).begin()


@pytest.fixture
async def reader(connect):
    return await connect(reads_only=True, append_timeout_ms=30_000)


async def test_a_mirror_has_what_the_journal_has_and_goes_on_when_it_starts_again(journal, reader, tmp_path):
    mirror = JournalMirror(tmp_path)
    for number in range(1, 4):
        await journal.grow(2)
        await mirror.catch_up(reader)
        assert in_folder(tmp_path, STATE) == list(range(4 * number))
        assert in_folder(tmp_path, EVENTS) == list(range(2 * number))
    mirror.close()
    await journal.grow()
    again = JournalMirror(tmp_path)
    await again.catch_up(reader)
    again.close()
    assert in_folder(tmp_path, STATE) == list(range(14))
    assert in_folder(tmp_path, EVENTS) == list(range(7))
    assert log_check.run(tmp_path, as_json=True) == 0


async def test_of_pieces_that_a_snapshot_has_replaced_a_mirror_has_what_compaction_left(journal, reader, tmp_path):
    """The checkpoint says so, and nothing is lost or read again when the mirror looks once more or starts again."""
    mirror = JournalMirror(tmp_path)
    await journal.grow(2)
    await mirror.catch_up(reader)
    await journal.grow(3)
    await journal.engine.snapshot(journal.state, 5, parts_of([batch(7, "b") + batch(8, "a", "b")]))
    for _ in range(2):
        await mirror.catch_up(reader)
        assert in_folder(tmp_path, STATE) == [0, 1, 2, 3, 7, 8, 9]
        assert in_folder(tmp_path, EVENTS) == [0, 1, 2, 3, 4]
    assert Checkpoint(RealDisk(), str(tmp_path / STATE)).offsets.clean_offset == 8
    mirror.close()
    await journal.grow()
    again = JournalMirror(tmp_path)
    await again.catch_up(reader)
    again.close()
    assert in_folder(tmp_path, STATE) == [0, 1, 2, 3, 7, 8, 9, 10, 11]
    assert log_check.run(tmp_path, as_json=True) == 0


@in_memory
async def test_a_mirror_that_begins_late_has_the_events_that_are_left(journal, reader, tmp_path):
    await journal.grow(4)
    await journal.engine.snapshot(journal.events, 2, parts_of([]))
    for _ in range(2):
        mirror = JournalMirror(tmp_path)
        await mirror.catch_up(reader)
        mirror.close()
        assert in_folder(tmp_path, EVENTS) == [2, 3]
    assert log_check.run(tmp_path, as_json=True) == 0


@in_memory
async def test_events_that_were_deleted_before_they_were_read_end_a_mirror(journal, reader, tmp_path):
    mirror = JournalMirror(tmp_path)
    await journal.grow(2)
    await mirror.catch_up(reader)
    await journal.grow(4)
    await journal.engine.snapshot(journal.events, 4, parts_of([]))
    with pytest.raises(JournalFailed, match="deleted before they were read"):
        await mirror.catch_up(reader)
    mirror.close()


@in_memory
async def test_state_is_never_behind_its_events_while_the_journal_grows(journal, reader, tmp_path):
    """The journal grows before every statement, so that whatever is read first is older than the rest."""
    mirror, tail = JournalMirror(tmp_path), reader.tail

    async def growing(log, sequence):
        await journal.grow()
        return await tail(log, sequence)

    reader.tail = growing
    for _ in range(3):
        await mirror.catch_up(reader)
        assert len(in_folder(tmp_path, STATE)) >= 2 * len(in_folder(tmp_path, EVENTS)) > 0
    mirror.close()


@in_memory
async def test_a_mirror_of_another_cluster_is_refused(journal, reader, tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=another\n")
    with pytest.raises(JournalFailed, match="follows another journal than the journal of cluster cluster-of-the-test"):
        await JournalMirror(tmp_path).catch_up(reader)


class Store:
    """Engines of one store, which commands find behind any address. `is_there` is False while it does not answer."""

    def __init__(self, monkeypatch) -> None:
        self.store = MemoryStore()
        self.is_there = True
        monkeypatch.setattr(journal_access, "engine_for", self.engine)

    def engine(self, _address, settings) -> MemoryEngine:
        world = self

        class Wire:
            def draw(self, _statement: str) -> Delivery:
                return Delivery() if world.is_there else Delivery(is_refused=True)

        return MemoryEngine(self.store, settings, Wire())

    def run(self, act):
        return journal_access.with_engine("memory://", EngineSettings(), act)


def test_a_folder_follows_a_journal_that_does_not_answer_for_a_while(tmp_path, monkeypatch, capsys):
    """One line says so, the mirror goes on as soon as it can, and meanwhile nobody else may write to the folder."""
    store, grown = Store(monkeypatch), []

    async def begin(engine):
        grown.append(await Journal(engine).begin())
        await grown[0].grow()

    async def grow(engine):
        grown[0].engine = engine
        await grown[0].grow()

    store.run(begin)
    with mirrored("memory://", "coordinator", tmp_path, 0.01) as check:
        assert in_folder(tmp_path, EVENTS) == [0]
        with pytest.raises(CannotStart, match="in use"), mirrored("memory://", "coordinator", tmp_path, None):
            pass
        store.is_there = False
        said = []
        wait_until(lambda: said.append(capsys.readouterr().err) or "trying again" in "".join(said), said)
        store.is_there = True
        store.run(grow)
        wait_until(lambda: in_folder(tmp_path, EVENTS) == [0, 1], "the new event")
        check()
    assert "".join(said).count("trying again") == 1


def test_a_mirror_that_cannot_go_on_says_why(tmp_path, monkeypatch):
    store = Store(monkeypatch)
    journals = []

    async def begin(engine):
        journals.append(await Journal(engine).begin())
        await journals[0].grow(2)

    async def lose(engine):
        journals[0].engine = engine
        await journals[0].grow(4)
        await engine.snapshot(journals[0].events, 5, parts_of([]))

    store.run(begin)

    def has_failed() -> bool:
        try:
            check()
        except JournalFailed as error:
            return "deleted before they were read" in str(error)
        return False

    with mirrored("memory://", "coordinator", tmp_path, 0.5) as check:
        store.run(lose)
        wait_until(has_failed, "the failure")

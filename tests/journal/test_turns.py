"""A journal gathers the batches of a turn of the loop; a bug of one log's owner does not reach the others."""

import pytest

from coordinator.journal.turns import TurnJournal


class Log:
    folder = "data/groups-7"
    failed = None
    durable_offset, end_offset = 5, 5

    def __init__(self, error=None):
        self.appended = []
        self._error = error

    def append(self, batch, record_count, max_timestamp):
        if self._error is not None:
            raise self._error
        self.appended.append((batch, record_count, max_timestamp))


class Turns(TurnJournal):
    """Counts the turns that it would write, and reports to the writers."""

    has_slots = idle = True

    def __init__(self):
        self.scheduled, self.added = [], []
        self.turns = 0
        super().__init__(self.scheduled.append)

    def nothing(self, *_given, **_named):
        pass

    begin = stop = settle = close = check_room = nothing

    def add(self, writer, batches):
        self.added.append((writer.name, batches))

    def _commit(self):
        self.turns += 1
        for writer in self._writers.values():
            self._report_durable(writer, 5)
            self._report_failure(writer, OSError("lost"))


def test_the_end_of_a_turn_is_scheduled_once_a_turn_and_calls_everybody_back():
    journal, called = Turns(), []
    for name in ("first", "second"):
        journal.at_turn_end(lambda name=name: called.append(name))
    (end_turn,) = journal.scheduled
    assert (journal.entries, journal.entry_bytes, journal.checkpoints) == (0, 0, 0)
    assert (called, journal.turns) == ([], 0)
    end_turn()
    assert (called, journal.turns) == (["first", "second"], 1)
    journal.at_turn_end(lambda: called.append("third"))
    assert len(journal.scheduled) == 2
    journal.scheduled[1]()
    assert (called, journal.turns) == (["first", "second", "third"], 2)


def test_a_bug_at_the_end_of_a_turn_or_in_an_owner_affects_nobody_else(caplog):
    journal, heard = Turns(), []

    def bug(*_given):
        raise ZeroDivisionError

    journal.writer(Log(), bug, bug)
    other = Log()
    journal.writer(other, heard.append, lambda error: heard.append(str(error)))
    journal.at_turn_end(bug)
    journal.at_turn_end(lambda: heard.append("end"))
    journal.scheduled[0]()
    assert heard == ["end", 5, "lost"]
    assert [record.getMessage() for record in caplog.records] == [
        "event=turn_end_failed",
        "event=durable_failed log=groups-7",
        "event=failure_not_handled log=groups-7",
    ]


@pytest.mark.parametrize(
    ("failed", "durable_offset", "is_idle"),
    [(None, 5, True), (None, 4, False), (OSError(), 4, True), (OSError(), 5, True)],
)
def test_a_log_is_idle_when_it_is_durable_or_has_failed(failed, durable_offset, is_idle):
    log = Log()
    log.failed, log.durable_offset = failed, durable_offset
    assert Turns().writer(log, print, print).idle == is_idle


def test_a_batch_is_appended_with_its_largest_timestamp_or_its_owner_learns_why_not():
    journal, log, errors = Turns(), Log(), []
    batch = bytes(range(35)) + (1_234).to_bytes(8) + bytes(range(100, 118))
    journal.writer(log, print, errors.append).write(batch, 3)
    assert (log.appended, journal.added, errors) == ([(batch, 3, 1_234)], [("groups-7", batch)], [])
    full = OSError("no space")
    journal.writer(Log(full), print, errors.append).write(batch, 3)
    assert (len(journal.added), errors) == (1, [full])

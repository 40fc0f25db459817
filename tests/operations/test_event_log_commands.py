"""`coordinator log check` and `log dump` of an event log."""

import json

from coordinator import cli
from coordinator.groups.events import EVENT_KEYS
from coordinator.log.batch import LogRecord
from coordinator.log.batch_builder import encode_batch
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    EventLogOpenedKey,
    EventLogOpenedValue,
    MemberLeftKey,
    MemberLeftValue,
)
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde

SERDE = Serde(Codec.of(), EVENT_KEYS)


def event_log(tmp_path, *events):
    folder = tmp_path / "__coordinator_events-3"
    folder.mkdir()
    records = [
        LogRecord(offset, 1_700_000_000_000, *SERDE.encode(Record(key, value, 0)))
        for offset, (key, value) in enumerate(events)
    ]
    (folder / f"{0:020d}.log").write_bytes(encode_batch(records))
    return folder


def left(state_offset):
    return MemberLeftKey("g"), MemberLeftValue(state_offset=state_offset, member_id="m", reason="why not")


def opened(state_offset, covered, undone_from=-1):
    value = EventLogOpenedValue(
        state_offset=state_offset, covered_state_offset=covered, undone_from_offset=undone_from, policy="all"
    )
    return EventLogOpenedKey(), value


def test_check_reports_missing_events_and_events_that_did_not_take_effect(tmp_path, capsys):
    folder = event_log(tmp_path, opened(0, -1), left(0), opened(40, 12), left(41), left(50), opened(41, 60, 4))
    assert cli.main(["log", "check", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "events may be missing for the state offsets 12 to 39" in printed
    assert "the events 4 to 4 did not take effect" in printed
    assert cli.main(["log", "check", "--json", str(folder)]) == 0
    (log,) = json.loads(capsys.readouterr().out)["logs"]
    assert (log["events_missing"], log["events_undone"]) == ([[12, 40]], [[4, 5]])


def test_dump_shows_events_as_messages(tmp_path, capsys):
    folder = event_log(tmp_path, left(7))
    assert cli.main(["log", "dump", "--json", str(folder)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["type"], row["key"]) == ("MemberLeft", {"group": "g"})
    assert (row["value"]["state_offset"], row["value"]["reason"]) == (7, "why not")

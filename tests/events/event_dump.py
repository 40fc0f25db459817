"""The event logs of a server, read from its data folder with `coordinator log dump`."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class MessageEvent:
    """One event; its fields are attributes."""

    log: str
    offset: int
    kind: str
    group: str | None
    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def offsets(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(topic, partition) -> (offset, error)."""
        return {
            (topic["topic_name"], each["partition"]): (each["committed_offset"], each["error_code"])
            for topic in self.fields["topics"]
            for each in topic["partitions"]
        }

    @property
    def partitions(self) -> dict[str, list[int]]:
        return {topic["topic_name"]: topic["partitions"] for topic in self.fields["topics"]}


def dump(folder: Path) -> list[dict[str, Any]]:
    """The records of a log."""
    command = [sys.executable, "-m", "coordinator", "log", "dump", "--json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


class RecordedEvents:
    """All events of a data folder, read once."""

    def __init__(self, data_dir: Path) -> None:
        self.events = [
            MessageEvent(row["log"], row["offset"], row["type"], row["key"].get("group"), row["value"])
            for row in dump(data_dir)
            if row["log"].startswith("__coordinator_events-")
        ]

    def of(self, kind: str, group: str | None = None) -> list[MessageEvent]:
        """The events of a type, optionally of one group, in the order of each log."""
        return [each for each in self.events if each.kind == kind and group in (None, each.group)]

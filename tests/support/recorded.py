"""Conversations with Kafka that are kept in a file: a line is a request with its answer, after all lines above it.

`said` asks a server the same and returns the lines with its answers. A live Kafka learns some changes late,
so a test asks it until it answers as recorded; `--rewrite` waits a little after each request instead, and records the answers.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until
from tests.support.wire import Connection, Values

Line = dict[str, Any]
Normalise = Callable[[str, Values], Values]
LEARNS_WITHIN_S = 0.5


class Recorded:
    """The conversation of a file. `normalise`: what is compared of the answer of an API."""

    def __init__(self, path: Path, normalise: Normalise = lambda _, answer: answer):
        self.path = path
        self._normalise = normalise

    @property
    def lines(self) -> list[Line]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def said(self, link: Connection, line: Line) -> Line:
        """The line with the server's answer."""
        answer = link.call(line["api"], line["version"], **line["request"])
        answer.pop("throttle_time_ms", None)
        return {**line, "answer": self._normalise(line["api"], answer)}

    def said_by_kafka(self, link: Connection, *, rewrite: bool) -> list[Line]:
        """The lines with the answers of a live Kafka, which are kept if they are to be rewritten."""
        found = []
        for line in self.lines:
            if not rewrite:
                wait_until(lambda line=line: self.said(link, line) == line, f"this answer: {line}")
            else:
                time.sleep(LEARNS_WITHIN_S)
            found.append(self.said(link, line))
        if rewrite:
            self.path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in found))
        return found

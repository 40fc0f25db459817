"""The part that all client programs share: commands as JSON lines in, results and events as JSON lines out.

A command is {"id": n, "do": name, ...arguments}; its result is {"id": n, "result": ...} or {"id": n, "error": text}.
Events report the client's callbacks in order: {"event": "assigned" | "revoked" | "lost", "partitions": [[t, p]]} and
{"event": "records", "records": [[topic, partition, offset, value]]}. All carry `at_ns`, the time of a clock that all
processes of a machine share. One thread uses the client library, as in users' programs. The end of stdin ends the
program, so that it never outlives its test.
"""

import json
import os
import queue
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from typing import Any

POLL_S = 0.05
SECURITY: dict[str, str] = json.loads(os.environ.get("SECURITY", "{}"))
"""`protocol`, and what it needs: the files `ca`, `certificate` and `key`; `mechanism` with `user` and `password` or `token`."""
NO_MORE: dict[str, Any] = {"do": "exit"}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message | {"at_ns": time.monotonic_ns()}) + "\n")
    sys.stdout.flush()


def read_commands() -> "queue.Queue[dict[str, Any]]":
    commands: queue.Queue[dict[str, Any]] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            commands.put(json.loads(line))
        commands.put(NO_MORE)

    threading.Thread(target=read, daemon=True).start()
    return commands


class Program(ABC):
    """One client program. Subclasses implement each command as a method `do_<name>` and poll their consumer."""

    def __init__(self, bootstrap: str):
        self.bootstrap = bootstrap

    @abstractmethod
    def poll(self) -> bool:
        """Lets the consumer work for a moment and reports its records; returns False if there is no consumer."""

    def run(self) -> None:
        commands = read_commands()
        say(event="ready")
        while True:
            consuming = self.poll()
            try:
                command = commands.get(timeout=0 if consuming else POLL_S)
            except queue.Empty:
                continue
            if command == NO_MORE:
                return
            self.obey(command)

    def obey(self, command: dict[str, Any]) -> None:
        number, name = command.pop("id"), command.pop("do")
        try:
            say(id=number, result=getattr(self, f"do_{name}")(**command))
        except Exception as error:  # the test decides what an error means
            traceback.print_exc()
            say(id=number, error=f"{type(error).__name__}: {error}")

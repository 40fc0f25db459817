"""How a program shows which records it has processed.

A program that copies its input testifies by the output topic, whose copies also say which transaction they are part of. Any
other program names its records in lines of text, in one format wherever the lines come from:

topic     the output topic holds a copy of each record that was processed
lines     the program prints a line to stdout for each record, after it has processed it and before it commits it
http      the program sends such a line as the body of a POST to PROCESSED_URL, and goes on when it is answered
command   a command prints such a line for each record that the database of the program holds, at the end of each event
none      nothing shows it: three promises are not judged
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import h11

from coordinator_testing.certify.case import InputRecord, Statement
from coordinator_testing.certify.content import Content
from coordinator_testing.certify.programs import Instance, now_ms

Source = Literal["topic", "lines", "http", "command", "none"]
LINE = r"processed (?P<topic>\S+) (?P<partition>\d+) (?P<offset>\d+)(?: (?P<time_ms>\d+))?"
"""The line that names a record, unless `--processed-line` says otherwise."""
GROUPS = ("topic", "partition", "offset", "value", "time_ms")
COMMAND_WITHIN_S = 30.0
_BODY_BYTES_MAX = 1 << 20
_READ_BYTES = 1 << 16


class WrongPattern(Exception):
    """A pattern that cannot name a record."""


class CommandFailed(Exception):
    """The command that prints what the database holds has failed."""


class Terms(NamedTuple):
    """What the command line says about the testimony."""

    source: Source = "topic"
    pattern: re.Pattern[str] = re.compile(LINE)
    command: str | None = None
    """For the shell; with the environment of the first instance."""


def pattern_of(expression: str) -> re.Pattern[str]:
    """The pattern of a line. Raises WrongPattern."""
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise WrongPattern(f"--processed-line is no regular expression: {error}") from None
    names = pattern.groupindex.keys()
    if unknown := names - set(GROUPS):
        raise WrongPattern(f"--processed-line has groups {sorted(unknown)}; allowed: {', '.join(GROUPS)}")
    if not (names >= {"partition", "offset"} or "value" in names):
        raise WrongPattern(
            "--processed-line names no record: it needs the groups (?P<partition>...) and (?P<offset>...), or (?P<value>...)"
        )
    return pattern


class _Said(NamedTuple):
    instance: int | None
    time_ms: int | None
    partition: int
    offset: int | None
    number: int | None
    place: str


class Testimony:
    """What the instances of one event said. Only records of its topic count."""

    def __init__(self, terms: Terms, topic: str, content: Content) -> None:
        self._terms = terms
        self._topic = topic
        self._content = content
        self._said: list[_Said] = []
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, instances: Sequence[Instance]) -> None:
        """Begins to listen to the instances, which have not started yet. Raises OSError."""
        if self._terms.source == "lines":
            for each in instances:
                each.on_line = self._on_line
        if self._terms.source == "http":
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
            port = self._server.sockets[0].getsockname()[1]
            for each in instances:
                each.environment["PROCESSED_URL"] = f"http://127.0.0.1:{port}/{each.index}"

    async def stop(self) -> None:
        """Ends the server of the HTTP calls."""
        if self._server is not None:
            self._server.close()
            for each in self._connections:
                each.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            self._server = None

    @property
    def comes_at_the_end(self) -> bool:
        """Whether nothing shows what was processed while the program runs."""
        return self._terms.source in ("command", "none")

    async def run_command(self, environment: Mapping[str, str]) -> None:
        """Reads what the command prints, if there is one. Raises CommandFailed."""
        if self._terms.command is None:
            return
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            self._terms.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
        )
        try:
            printed, complaints = await asyncio.wait_for(process.communicate(), COMMAND_WITHIN_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise CommandFailed(f"{self._terms.command}: not done within {COMMAND_WITHIN_S:g} s") from None
        if process.returncode:
            last = complaints.decode(errors="replace").strip().rpartition("\n")[2]
            raise CommandFailed(f"{self._terms.command}: exit code {process.returncode}: {last}")
        for number, line in enumerate(printed.decode(errors="replace").splitlines(), 1):
            self._take(line, None, None, f"row {number}")

    def statements(
        self, inputs: Mapping[int, Sequence[InputRecord]], recreated_ms: Sequence[int]
    ) -> list[Statement] | None:
        """What was said of these records; None if another source than lines testifies."""
        if self._terms.source in ("topic", "none"):
            return None
        known: dict[tuple[int, int, int], list[InputRecord]] = {}
        for partition, records in inputs.items():
            for record in records:
                known.setdefault((partition, record.life, record.offset), []).append(record)
        found = []
        for said in tuple(self._said):  # threads add to it
            life = len(recreated_ms) if said.time_ms is None else sum(each <= said.time_ms for each in recreated_ms)
            number = said.number
            if said.offset is not None:
                # The newest record that had this offset then.
                owners = reversed(known.get((said.partition, life, said.offset), ()))
                number = next(
                    (each.number for each in owners if said.time_ms is None or each.since_ms <= said.time_ms), None
                )
            if number is not None:
                found.append(Statement(said.partition, number, said.time_ms, said.instance, said.place))
        return found

    def _on_line(self, instance: int, time_ms: int, line: bytes) -> None:
        self._take(line.decode(errors="replace"), instance, time_ms, f"stdout of instance {instance}")

    def _take(self, line: str, instance: int | None, time_ms: int | None, place: str) -> None:
        match = self._terms.pattern.search(line)
        fields = match.groupdict() if match else {}
        if match is None or fields.get("topic") not in (None, self._topic):
            return
        if fields.get("time_ms"):
            time_ms = int(fields["time_ms"])
        if fields.get("offset") is not None:
            said = _Said(instance, time_ms, int(fields["partition"]), int(fields["offset"]), None, place)
        elif (record := self._content.record_of((fields.get("value") or "").encode())) is not None:
            said = _Said(instance, time_ms, record[0], None, record[1], place)
        else:
            return
        self._said.append(said)

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection: 204, when what they say is noted."""
        connection = h11.Connection(h11.SERVER)
        instance, body = b"", b""
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    if connection.they_are_waiting_for_100_continue:
                        writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                    connection.receive_data(await reader.read(_READ_BYTES))
                elif isinstance(event, h11.Request):
                    instance, body = event.target.rpartition(b"/")[2], b""
                elif isinstance(event, h11.Data):
                    body += event.data
                    if len(body) > _BODY_BYTES_MAX:
                        return
                elif isinstance(event, h11.EndOfMessage):
                    for each in body.decode(errors="replace").splitlines() if instance.isdigit() else ():
                        self._take(each, int(instance), now_ms(), f"HTTP call of instance {int(instance)}")
                    response = h11.Response(status_code=204 if instance.isdigit() else 404, headers=[])
                    writer.write((connection.send(response) or b"") + (connection.send(h11.EndOfMessage()) or b""))
                    await writer.drain()
                    connection.start_next_cycle()
                else:
                    return  # the instance has closed the connection
        except (ConnectionError, h11.ProtocolError):
            return  # the instance was killed, or speaks no HTTP
        finally:
            writer.close()

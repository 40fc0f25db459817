"""`python -m tests.compatibility.certified.measure FOLDER [NAME/PROTOCOL ...]`: certifies programs twice, and prints the tables
of docs/certification.md from all certificates that the folder has then.

    FOLDER/first/confluent/classic/certificate.json
    FOLDER/second/...

A certificate that is there is not made again.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coordinator_testing.certify.curriculum import events_of
from tests.compatibility.certified.programs import PROGRAMS, WRONG

RUNS = ("first", "second")
JOBS = 2
SHORT = {
    "records lost": "lost",
    "delivered twice": "twice",
    "committed too early": "early",
    "read by two at once": "two readers",
    "seconds without progress": "stall",
    "rebalances": "rebalances",
    "requests after a fatal error": "after fatal",
    "program ended": "ended",
}
"""Promise -> its word in a table."""
Certificate = dict[str, Any]


def subjects() -> Iterator[tuple[str, str]]:
    """Every right program with every protocol that it has."""
    for name, program in PROGRAMS.items():
        if name not in WRONG:
            yield from ((name, protocol) for protocol in program.protocols)


def certify(folder: Path, name: str, protocol: str) -> None:
    """Writes the certificate of a program. One in transactions is certified in the events for such programs only."""
    events = [each.name for each in events_of(protocol) if each.is_transactional == PROGRAMS[name].transactional]  # type: ignore[arg-type]
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(Path(sys.executable).with_name("coordinator")),
        "certify",
        "--protocol",
        protocol,
        "--jobs",
        str(JOBS),
    ]
    command += ["--events", ",".join(events), "--output", str(folder), "--", *PROGRAMS[name].command()]
    with (folder / "table.txt").open("wb") as output:
        subprocess.run(command, stdout=output, stderr=output, check=False)


def cell(event: dict[str, Any] | None) -> str:
    """What a table says of an event."""
    if event is None or event["outcome"] == "not applicable":
        return "-"
    if event["outcome"] == "passed":
        return "kept"
    broken = [SHORT[each["promise"]] for each in event["findings"] if each["outcome"] == "broken"]
    return ", ".join(broken) or "not reached"


def load(folder: Path) -> dict[tuple[str, str], Certificate]:
    """The certificates of a run, by program and protocol."""
    found = {}
    for name, protocol in subjects():
        path = folder / name / protocol / "certificate.json"
        if path.exists():
            found[name, protocol] = json.loads(path.read_text())
    return found


def table(certificates: dict[tuple[str, str], Certificate], protocol: str, is_transactional: bool) -> Iterator[str]:
    """A row for each event, a column for each program."""
    names = [
        name for name, found in certificates if found == protocol and PROGRAMS[name].transactional == is_transactional
    ]
    if not names:
        return
    yield f"| event | {' | '.join(name.removesuffix('_transactions') for name in names)} |"
    yield f"|---|{'---|' * len(names)}"
    for event in events_of(protocol):  # type: ignore[arg-type]
        if event.is_transactional == is_transactional:
            cells = [cell(_event(certificates[name, protocol], event.name)) for name in names]
            yield f"| {event.name} | {' | '.join(cells)} |"


def differences(runs: Iterable[dict[tuple[str, str], Certificate]]) -> Iterator[str]:
    """Events of which the runs say different things."""
    first, *others = runs
    for other in others:
        for subject in first.keys() & other.keys():
            for event in first[subject]["events"]:
                one, two = cell(event), cell(_event(other[subject], event["name"]))
                if one != two:
                    yield f"{'/'.join(subject)}, {event['name']}: {one}, then {two}"


def _event(certificate: Certificate, name: str) -> dict[str, Any] | None:
    return next((each for each in certificate["events"] if each["name"] == name), None)


def main() -> None:
    folder, *chosen = sys.argv[1:]
    for run in RUNS:
        for name, protocol in subjects():
            place = Path(folder, run, name, protocol)
            if f"{name}/{protocol}" in chosen and not (place / "certificate.json").exists():
                certify(place, name, protocol)
    runs = [load(Path(folder, run)) for run in RUNS]
    for protocol in ("classic", "consumer", "streams"):
        for is_transactional in (False, True):
            print(*table(runs[0], protocol, is_transactional), "", sep="\n")
    print(*differences(runs) or ["no differences"], sep="\n")


if __name__ == "__main__":
    main()

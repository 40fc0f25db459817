"""Measures how long a start takes, with and without workers, in turns.

    python -m tests.supervisor.measure_start [--rounds N]

Other work on the machine slows all of them down, so the ratios within a round say more than the seconds.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

from tests.support.server_process import ServerProcess

WORKERS = (0, 1, 3)


class Start(NamedTuple):
    """Seconds from exec."""

    ready: float
    """Until the line that says so."""
    answered: float
    """Until /health/ready is 200. The first request imports the modules of admin HTTP, in every worker."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        servers = {workers: make_server(Path(folder), workers) for workers in WORKERS}
        for server in servers.values():
            start_s(server)  # makes the data folder
        found = [{workers: start_s(server) for workers, server in servers.items()} for _ in range(rounds)]
    for workers in WORKERS:
        for field in Start._fields:
            seconds = median(getattr(each[workers], field) for each in found)
            ratio = median(getattr(each[workers], field) / getattr(each[0], field) for each in found)
            print(f"--workers {workers}  {field:8} {seconds:6.2f} s  {ratio:5.2f} times serve")


def make_server(folder: Path, workers: int) -> ServerProcess:
    own = folder / str(workers)
    own.mkdir()
    arguments = ("--workers", str(workers)) if workers else ()
    return ServerProcess(own, config=None, arguments=arguments)


def start_s(server: ServerProcess) -> Start:
    """Starts it, asks it, and stops it."""
    began_s = time.monotonic()
    server.start()
    ready_s = time.monotonic() - began_s
    with urlopen(f"{server.admin}/health/ready", timeout=60) as answer:
        assert answer.status == 200
    answered_s = time.monotonic() - began_s
    server.terminate()
    return Start(ready_s, answered_s)


if __name__ == "__main__":
    main()

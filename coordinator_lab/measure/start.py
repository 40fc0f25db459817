"""Measures how long a start takes, with and without workers, in turns.

    python -m coordinator_lab.measure start [--rounds N]

Other work on the machine slows all of them down, so the ratios within a round say more than the seconds.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

from coordinator_lab.bench.footprint import running_server

WORKERS = (0, 1, 3)
OK = 200


class Start(NamedTuple):
    """Seconds from exec."""

    ready: float
    """Until the line that says so."""
    answered: float
    """Until /health/ready is 200. The first request imports the modules of admin HTTP, in every worker."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m coordinator_lab.measure start")
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args(arguments).rounds
    with tempfile.TemporaryDirectory() as folder:
        for workers in WORKERS:
            start_s(folder, workers)  # makes the data folder
        found = [{workers: start_s(folder, workers) for workers in WORKERS} for _ in range(rounds)]
    for workers in WORKERS:
        for field in Start._fields:
            seconds = median(getattr(each[workers], field) for each in found)
            ratio = median(getattr(each[workers], field) / getattr(each[0], field) for each in found)
            print(f"--workers {workers}  {field:8} {seconds:6.2f} s  {ratio:5.2f} times serve")


def start_s(folder: str, workers: int) -> Start:
    """Starts a server, asks it, and stops it."""
    arguments = ("--workers", str(workers)) if workers else ()
    began_s = time.monotonic()
    with running_server(f"{folder}/{workers}", arguments=arguments) as (_port, process, admin):
        ready_s = time.monotonic() - began_s
        with urlopen(f"{admin}/health/ready", timeout=60) as answer:  # noqa: S310 - on loopback
            assert answer.status == OK
        answered_s = time.monotonic() - began_s
        process.terminate()
        process.wait()
    return Start(ready_s, answered_s)

"""`python -m coordinator_lab.measure NAME [OPTIONS]`: starts a measuring program; with --help it says what it takes."""

import sys
from importlib import import_module

PROGRAMS = {
    "engines": "appends, claims and replays of the engines of several workers",
    "overlay": "Produce and Fetch through a server in front of a Kafka cluster, and straight to it",
    "start": "how long a start takes, with and without workers",
    "watch": "the CPU time in which `coordinator watch` reads the commits of 10,000 groups",
}


def main(arguments: list[str]) -> None:
    name, *others = arguments or [""]
    if name not in PROGRAMS:
        names = "\n".join(f"    {each:8} {what}" for each, what in PROGRAMS.items())
        raise SystemExit(f"usage: python -m coordinator_lab.measure NAME [OPTIONS]\n\n{names}")
    import_module(f"coordinator_lab.measure.{name}").main(others)


main(sys.argv[1:])

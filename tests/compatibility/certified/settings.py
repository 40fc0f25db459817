"""The environment that `coordinator certify` gives a program, for the programs in Python."""

import os
import signal
import sys
from types import FrameType

BOOTSTRAP = os.environ["BOOTSTRAP"]
TOPIC = os.environ["TOPIC"]
GROUP = os.environ["GROUP"]
OUTPUT_TOPIC = os.environ.get("OUTPUT_TOPIC", "")
GROUP_PROTOCOL = os.environ.get("GROUP_PROTOCOL", "classic")
GROUP_INSTANCE_ID = os.environ.get("GROUP_INSTANCE_ID") or None
CLIENT_RACK = os.environ.get("CLIENT_RACK", "")
MAX_POLL_INTERVAL_MS = int(os.environ.get("MAX_POLL_INTERVAL_MS", "300000"))
TRANSACTIONAL_ID = os.environ.get("TRANSACTIONAL_ID") or f"{GROUP}-{os.environ.get('INSTANCE', '0')}"
"""A service that works in transactions does so in every event, whether or not it is given an id."""


class Stop:
    """True once SIGTERM or SIGINT asked the program to close its client and end."""

    def __init__(self) -> None:
        self.requested = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True

    def __bool__(self) -> bool:
        return self.requested


def classic_only(library: str) -> None:
    """Exit code 2 if the group has another protocol than the only one of this library."""
    if GROUP_PROTOCOL != "classic":
        print(f"{library} has no group.protocol={GROUP_PROTOCOL}", file=sys.stderr)
        sys.exit(2)


def report(what: str, failure: object) -> None:
    print(f"{what}: {failure!r}", file=sys.stderr, flush=True)

"""The environment that `coordinator certify` gives a program, for the programs in Python."""

import os
import signal
import sys
from types import FrameType
from typing import Any

BOOTSTRAP = os.environ["BOOTSTRAP"]
TOPIC = os.environ["TOPIC"]
GROUP = os.environ["GROUP"]
OUTPUT_TOPIC = os.environ.get("OUTPUT_TOPIC", "")
GROUP_PROTOCOL = os.environ.get("GROUP_PROTOCOL", "classic")
GROUP_INSTANCE_ID = os.environ.get("GROUP_INSTANCE_ID") or None
CLIENT_RACK = os.environ.get("CLIENT_RACK", "")
MAX_POLL_INTERVAL_MS = int(os.environ.get("MAX_POLL_INTERVAL_MS", "300000"))
SASL_MECHANISM = os.environ.get("SASL_MECHANISM", "")
LIBRDKAFKA: dict[str, Any] = {"bootstrap.servers": BOOTSTRAP}
"""How clients of confluent-kafka connect."""
ARGUMENTS: dict[str, Any] = {"bootstrap_servers": BOOTSTRAP}
"""How clients of kafka-python and aiokafka connect."""
if SASL_MECHANISM:
    LIBRDKAFKA |= {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": SASL_MECHANISM,
        "sasl.username": os.environ["SASL_USERNAME"],
        "sasl.password": os.environ["SASL_PASSWORD"],
    }
    ARGUMENTS |= {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": SASL_MECHANISM,
        "sasl_plain_username": os.environ["SASL_USERNAME"],
        "sasl_plain_password": os.environ["SASL_PASSWORD"],
    }
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


def share_only() -> None:
    """Exit code 2 unless the group is a share group."""
    if GROUP_PROTOCOL != "share":
        print(f"a share consumer has no group.protocol={GROUP_PROTOCOL}", file=sys.stderr)
        sys.exit(2)


def report(what: str, failure: object) -> None:
    print(f"{what}: {failure!r}", file=sys.stderr, flush=True)

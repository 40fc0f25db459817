"""The releases of Kafka that the server of a certification can be for the instances."""

from collections.abc import Sequence

from coordinator.protocol.releases import NEWEST, releases
from coordinator_testing.certify.event import Protocol

FIRST = {"consumer": "4.0", "streams": "4.2", "share": NEWEST}
"""Protocol -> the first release whose brokers serve it; they all serve the classic one."""


def known() -> Sequence[str]:
    """All of them, from the newest to the oldest."""
    return (NEWEST, *releases())


def is_before(release: str, other: str) -> bool:
    """Whether a release is older than another one."""
    return known().index(release) > known().index(other)


def serves(release: str, protocol: Protocol) -> bool:
    """Whether the brokers of a release have groups of this protocol."""
    return not is_before(release, FIRST.get(protocol, known()[-1]))

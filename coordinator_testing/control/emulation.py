"""The release of Kafka that the server's clients see."""

from msgspec import Struct

from coordinator_testing.control import steps
from coordinator_testing.control.steps import Steps

PATH = "/v1/emulation"


class Emulation(Struct, frozen=True):
    """The release that clients see, the one before, and how many connections the change ended."""

    release: str
    former: str
    connections_closed: int


def shown() -> Steps[Emulation]:
    """The release that clients see."""
    return steps.ask(steps.get(PATH), Emulation)


def become(release: str) -> Steps[Emulation]:
    """Becomes another release; all connections end."""
    return steps.ask(steps.post(PATH, {"release": release}), Emulation)

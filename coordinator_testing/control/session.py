"""What both clients share: the server's URL, the scope, and what leaving undoes."""

import uuid
from urllib.parse import urlsplit

from coordinator.rules.model import FaultStatus, RecordingStatus
from coordinator_testing.control import faults, recordings, steps
from coordinator_testing.control.clock import ClockCommands
from coordinator_testing.control.command import command
from coordinator_testing.control.errors import ControlOff
from coordinator_testing.control.steps import Steps, View


class ControlCommands:
    """Faults, groups, time and recordings of one server.

    `url` is the admin address, "http://host:port" or "host:port". `scope` names what belongs together; by default it is a name
    that no other client has. Leaving the `with` clears the scope, releases what its rules hold, and lets the clock run again
    if this client made it manual. With `scope=None` a client sees the rules of all scopes, and leaving clears none.
    `access` has the token or certificate that the server asks for. A server that has not answered after `answered_within_s`
    seconds more than it was asked to wait is unreachable.

    Every command raises ControlRefused, ControlOff if the server does not let itself be controlled, or ControlUnreachable.
    """

    clock: ClockCommands

    def __init__(self, url: str, scope: str | None = "") -> None:
        self.url = base_url(url)
        """The URL of the server: "http://host:port"."""
        self.scope = f"control-{uuid.uuid4().hex[:12]}" if scope == "" else scope

    @command
    def faults(self) -> Steps[list[FaultStatus]]:
        """The rules of the scope."""
        return faults.listed(self.scope)

    @command
    def clear_faults(self) -> Steps[int]:
        """Removes the rules of the scope; what they hold is released. Returns how many."""
        return faults.clear_all(self.scope)

    @command
    def recordings(self) -> Steps[list[RecordingStatus]]:
        """The recordings of the scope."""
        return recordings.listed(self.scope)

    @command
    def groups(self) -> Steps[list[View]]:
        """All groups of the server, with kind and state."""
        return steps.ask_for_pages("groups")

    @command
    def transactions(self) -> Steps[list[View]]:
        """All transactional ids of the server, with their state."""
        return steps.ask_for_pages("transactions")

    @command
    def topics(self) -> Steps[list[View]]:
        """All topics of the server, with the offsets at which their partitions begin and end."""
        return steps.ask_for_pages("topics")

    def leave(self) -> Steps[None]:
        """Clears the faults and recordings of the scope, and lets the clock run again."""
        try:
            if self.scope is not None:
                yield from faults.clear_all(self.scope)
                yield from recordings.clear_all(self.scope)
        except ControlOff:
            return  # then nothing is set
        finally:
            if self.clock.made_manual:
                yield from self.clock.run_again()


def base_url(address: str) -> str:
    """The URL of an admin address: "http://host:port" or "host:port". Raises ValueError."""
    url = urlsplit(address if "://" in address else f"http://{address}")
    try:
        is_address = url.scheme in {"http", "https"} and url.hostname and (url.port or "://" in address)
    except ValueError:  # the port is no number
        is_address = False
    if not is_address or url.path.strip("/") or url.query or url.fragment:
        raise ValueError(f"{address!r} is no admin address: it must be http://HOST:PORT or HOST:PORT")
    return f"{url.scheme}://{url.netloc}"

"""What both clients share: the server's URL, the scope, and what leaving undoes."""

import uuid
from urllib.parse import urlsplit

from coordinator.rules.model import FaultStatus, RecordingStatus
from coordinator_testing.control import brokers, emulation, faults, recordings, steps, workers
from coordinator_testing.control.clock import ClockCommands
from coordinator_testing.control.command import command
from coordinator_testing.control.emulation import Emulation
from coordinator_testing.control.errors import ControlOff
from coordinator_testing.control.steps import Steps, View
from coordinator_testing.control.workers import Worker


class ControlCommands:
    """Faults, groups, time and recordings of one server.

    `url` is the admin address, "http://host:port" or "host:port". `scope` names what belongs together; by default it is a name
    that no other client has. Leaving the `with` clears the scope, releases what its rules hold, brings brokers up that this
    client took down, has the server be the release of Kafka again that it was, and lets the clock run again if this client made
    it manual. With `scope=None` a client sees the rules of
    all scopes, and leaving clears none.
    `access` has the token or certificate that the server asks for. A server that has not answered after `answered_within_s`
    seconds more than it was asked to wait is unreachable.

    Every command raises ControlRefused, ControlOff if the server does not let itself be controlled, or ControlUnreachable.
    """

    clock: ClockCommands

    def __init__(self, url: str, scope: str | None = "") -> None:
        self.url = base_url(url)
        """The URL of the server: "http://host:port"."""
        self.scope = f"control-{uuid.uuid4().hex[:12]}" if scope == "" else scope
        self.made_down: set[str] = set()
        """The brokers that this client took down, and has to bring up again."""
        self.former_release: str | None = None
        """The release that the server was before this client changed it."""

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
    def brokers(self) -> Steps[list[brokers.Broker]]:
        """All brokers of a server that is several; none if it is one."""
        return brokers.listed()

    @command
    def workers(self) -> Steps[list[Worker]]:
        """All workers that share the work; none if the server works alone."""
        return workers.listed()

    @command
    def drain_worker(self, number: int) -> Steps[Worker]:
        """Lets the others take the shards of a worker. Leaving the `with` does not undo it."""
        return workers.act(number, "drain")

    @command
    def resume_worker(self, number: int) -> Steps[Worker]:
        """Lets a worker that was drained take its share of the shards again."""
        return workers.act(number, "resume")

    @command
    def move_shard(self, shard: str, number: int) -> Steps[Worker]:
        """Moves a shard, by its log such as `__consumer_offsets-3`, to a worker, which gives another one for it."""
        return workers.act(number, "move", shard=shard)

    @command
    def emulation(self) -> Steps[Emulation]:
        """The release of Kafka that clients of the server see."""
        return emulation.shown()

    @command
    def emulate(self, release: str) -> Steps[Emulation]:
        """The server becomes another release of Kafka, such as "3.9"; all connections end, as in a rolling upgrade."""
        done = yield from emulation.become(release)
        self.former_release = self.former_release or done.former
        return done

    @command
    def topics(self) -> Steps[list[View]]:
        """All topics of the server, with the offsets at which their partitions begin and end."""
        return steps.ask_for_pages("topics")

    def leave(self) -> Steps[None]:
        """Clears the faults and recordings of the scope, brings brokers up again, and lets the clock run again."""
        try:
            yield from brokers.bring_up(self.made_down)
            if self.former_release is not None:
                yield from emulation.become(self.former_release)
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

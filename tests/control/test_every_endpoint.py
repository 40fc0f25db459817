"""The client has a command for each endpoint of the server under /v1, and asks for nothing that is none."""

import re
from typing import ClassVar

from coordinator.admin.routes import all_endpoints
from coordinator_testing.control import faults, recordings
from coordinator_testing.control.brokers import BrokerCommands
from coordinator_testing.control.clock import ClockCommands
from coordinator_testing.control.events import EventStream
from coordinator_testing.control.faults import FaultCommands
from coordinator_testing.control.groups import GroupCommands
from coordinator_testing.control.recordings import RecordingCommands
from coordinator_testing.control.session import ControlCommands
from coordinator_testing.control.transactions import TransactionCommands

WITHOUT_COMMAND = {
    ("GET", "/v1/openapi.json"),
    ("GET", "/v1/events/page"),
    ("GET", "/v1/groups/{group_id}/why"),
    ("GET", "/v1/groups/{group_id}/in-flight"),
    ("GET", "/v1/overview"),
    ("GET", "/v1/topics/{topic}"),
    ("GET", "/v1/topics/{topic}/partitions/{partition}/records"),
}
"""The first is for programs that make a client; the stream has the events of the second; `coordinator groups why` has the
answer of the third from the log, and the fourth is a part of the view of a group. The others are the page's; a program has
metrics, and clients of Kafka for topics and their records."""


class First:
    """Performs nothing: a command returns its first request."""

    id = "x"

    def run(self, command):
        request = next(command)
        return request.method, request.path


class Whole(First, ControlCommands):
    clock = ClockCommands()

    def __init__(self):
        super().__init__("localhost:1")


class Fault(First, FaultCommands):
    pass


class Group(First, GroupCommands):
    pass


class Transaction(First, TransactionCommands):
    pass


class Recording(First, RecordingCommands):
    pass


class Broker(First, BrokerCommands):
    made_down: ClassVar[set[str]] = set()


class Clock(First, ClockCommands):
    pass


def requests():
    whole, fault, group, transaction, recording, broker, clock = (
        Whole(), Fault(), Group(), Transaction(), Recording(), Broker(), Clock()
    )  # fmt: skip
    yield from (whole.faults(), whole.clear_faults(), whole.recordings(), whole.groups(), whole.transactions())
    yield from (whole.topics(), whole.run(whole.leave()), ("GET", EventStream.PATH))
    yield whole.run(faults.add(None, {"close": True}))
    yield whole.run(recordings.start(None, None, {}))
    yield whole.run(recordings.clear_all("s"))
    yield from (fault.status(), fault.wait(acted=1), fault.release(), fault.clear())
    yield from (group.describe(), group.wait(state="Stable"), group.rebalance("why"), group.evict("m"), group.at(1))
    yield from (group.expire_session("m"), group.bump_epoch(), group.expire_offsets(), group.reload(), group.diff(1, 2))
    yield group.expire_locks("m", topic="t", partition=0)
    yield from (transaction.describe(), transaction.wait("Ongoing"), transaction.expire(), transaction.reload())
    yield from (recording.entries(), recording.wait(1), recording.page(), recording.clear())
    yield from (whole.emulation(), whole.emulate("3.9"))
    yield from (whole.workers(), whole.drain_worker(1), whole.resume_worker(1), whole.move_shard("s", 1))
    yield from (whole.brokers(), broker.down(), broker.up(), broker.lead(group="g"))
    yield from (
        clock.read(),
        clock.manual(),
        clock.real(),
        clock.advance(1),
        clock.advance_to_next(),
        clock.set_wall(1),
    )


def test_each_endpoint_has_a_command_and_each_command_an_endpoint():
    endpoints = {(each.method, each.path) for each in all_endpoints() if each.path.startswith("/v1/")} - WITHOUT_COMMAND
    patterns = {key: re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(key[1]))) for key in endpoints}
    used = set()
    for method, path in requests():
        found = [key for key in endpoints if key[0] == method and patterns[key].fullmatch(path)]
        assert len(found) == 1, (method, path)
        used.update(found)
    assert endpoints - used == set()

"""A data plane behind an authorizer that a test fills by hand, asked with frames on a connection without a socket."""

import logging

from coordinator.network.connection import Connection, ConnectionLimits
from coordinator.network.dispatch import Dispatcher
from coordinator.network.log_once import LogOncePerClient
from coordinator.network.turn import Turn
from coordinator.runtime.memory import Memory
from tests.support.asking import Server
from tests.support.peer import CODEC, Transport
from tests.support.permitting import Allowed
from tests.support.wire import decode, encode, frame

LIMITS = ConnectionLimits(
    frame_bytes_max=1 << 20,
    produce_bytes_max=1 << 20,
    requests_in_flight_max=5,
    write_buffer_bytes_max=1 << 20,
    idle_ms_max=600_000,
    frame_ms_max=30_000,
    drain_ms_max=30_000,
)


class GuardedServer(Server):
    """A server, and one client of it, whose principal is ANONYMOUS. At first the client may do nothing."""

    def __init__(self, *, guarded=True, **settings):
        """`guarded`: whether there is an authorizer."""
        super().__init__(**settings)
        self.allowed = Allowed()
        self._soon = []
        self.memory = Memory(1 << 24, self._soon.append)
        self._dispatcher = Dispatcher(self, self.apis, CODEC, authorizer=self.allowed if guarded else None)
        self._number = 0
        self.turns = 0
        """Turns of the loop so far."""
        self.connect()

    def connect(self):
        """Opens the client's connection, again if the server has closed it."""
        self.transport = Transport()
        self._connection = Connection(
            self._dispatcher,
            LIMITS,
            Turn(self._soon.append, lambda: 0, lambda: 0, lambda _ms, _cpu_ns: None),
            LogOncePerClient(logging.getLogger("test"), lambda: 0),
            self.memory,
            ("localhost", 9092),
            lambda: 0,
            lambda _connection: None,
            lambda _connection: None,
        )
        self._connection.connection_made(self.transport)

    def send(self, name, version, **values):
        """The frames that the server has written since, without the size of the first."""
        self._number += 1
        written = len(self.transport.written)
        body = encode(f"{name}Request", version, values)
        self._connection.data_received(frame(name, version, body, self._number, "test"))
        self.run()
        return self.transport.written[written + 4 :]

    def run(self):
        """Runs turns of the loop until nothing is left to do."""
        while self._soon:
            self.turns += 1
            callbacks, self._soon[:] = list(self._soon), []
            for callback in callbacks:
                callback()

    def ask(self, name, version, **values):
        """The response, which must be there at once."""
        answered = self.send(name, version, **values)
        assert int.from_bytes(answered[:4]) == self._number, "no answer"
        body = answered[5 if CODEC.is_flexible(f"{name}Response", version) else 4 :]
        return decode(f"{name}Response", version, body)

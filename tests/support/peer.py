"""One end of a connection without a socket: the test sends frames, answers requests and runs the turns of the loop."""

import logging

from coordinator.api.declaration import Api
from coordinator.client.conversation import request_frame
from coordinator.network.connection import Connection, ConnectionLimits
from coordinator.network.dispatch import Dispatcher
from coordinator.network.log_once import LogOncePerClient
from coordinator.network.turn import Turn
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.runtime.memory import Memory
from coordinator.security.access import READ_GROUP

CODEC = Codec.of(None)


class Transport:
    def __init__(self):
        self.written = b""
        self.reading = True
        self.closed = False
        self.on_write = lambda: None

    def write(self, data):
        assert not self.closed
        self.written += data
        self.on_write()

    def writelines(self, parts):
        self.parts = list(parts)
        self.write(b"".join(self.parts))

    def get_extra_info(self, name):
        return ("127.0.0.1", 4711)

    def set_write_buffer_limits(self, high=None):
        pass

    def pause_reading(self):
        assert self.reading
        self.reading = False

    def resume_reading(self):
        assert not self.reading
        self.reading = True

    def close(self):
        self.closed = True

    def abort(self):
        self.closed = True

    def answers(self):
        """(correlation id, error code) of every answer written so far."""
        found, position = [], 0
        while position < len(self.written):
            size = int.from_bytes(self.written[position : position + 4])
            body = self.written[position + 4 : position + 4 + size]
            found.append((int.from_bytes(body[:4]), CODEC.decoder("HeartbeatResponse", 4)(body, 5)[0].error_code))
            position += 4 + size
        return found


class Peer:
    """One connection whose requests wait until the test answers them (`held`), or are answered at once.

    `beside`: another connection of the same server.
    """

    def __init__(self, in_flight=5, held=True, frame_bytes=1_000, memory_bytes=1 << 20, beside=None):
        self.now, self.exchanges, self.lost, self.turns_ms = 0, [], [], []
        self.soon = beside.soon if beside else []
        self.loop_turn = (
            beside.loop_turn
            if beside
            else Turn(self.soon.append, lambda: self.now, lambda: 0, lambda turn_ms, _: self.turns_ms.append(turn_ms))
        )
        self.transport = Transport()
        self.hold_next = False
        self.on_request = lambda exchange: None

        def handle(server, exchange):
            self.exchanges.append(exchange)
            self.on_request(exchange)
            if self.hold_next:
                exchange.wait()
            if not held:
                exchange.reply(HeartbeatResponse())

        api = Api(
            key=12,
            name="Heartbeat",
            versions=(0, 4),
            access=(READ_GROUP,),
            handle=handle,
            refuse=lambda request, error, version: HeartbeatResponse(error_code=error.code),
        )
        limits = ConnectionLimits(
            frame_bytes_max=frame_bytes,
            produce_bytes_max=frame_bytes,
            requests_in_flight_max=in_flight,
            write_buffer_bytes_max=1 << 16,
            idle_ms_max=600_000,
            frame_ms_max=30_000,
            drain_ms_max=30_000,
        )
        self.memory = Memory(memory_bytes, self.soon.append)
        self.connection = Connection(
            Dispatcher(None, {12: api}, CODEC),
            limits,
            self.loop_turn,
            LogOncePerClient(logging.getLogger("test"), lambda: 0),
            self.memory,
            ("localhost", 9092),
            lambda: self.now,
            lambda connection: None,
            self.lost.append,
        )
        self.connection.connection_made(self.transport)

    def send(self, *correlation_ids):
        self.connection.data_received(b"".join(request(number) for number in correlation_ids))

    def answer(self, number):
        self.exchanges[number].reply(HeartbeatResponse())

    def turn(self):
        callbacks, self.soon[:] = list(self.soon), []
        for callback in callbacks:
            callback()


def request(correlation_id):
    return request_frame(HeartbeatRequest(group_id="g", member_id="m"), 4, correlation_id, b"test")

"""Connections take turns: a client that sends more than the others does not keep them waiting."""

import pytest

from coordinator.api.sliced_work import SLICE_PIECES, BackgroundWork
from coordinator.client.conversation import request_frame
from coordinator.network.turn import LOOK_BYTES, REQUEST_BYTES, SLICE_REQUESTS, TURN_MS, TURN_RESPONSE_BYTES, WAITING_MS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.runtime.memory import COUNTED_BYTES
from tests.support.peer import Peer, request

FLOOD = range(3_000)
FLOOD_DATA = b"".join(request(number) for number in FLOOD)


def flooded(connections=1):
    """Connections that have sent 3,000 requests each in one read, in the first turn."""
    first = Peer(held=False)
    peers = [first, *(Peer(held=False, beside=first) for _ in range(connections - 1))]
    for peer in peers:
        peer.connection.data_received(FLOOD_DATA)
    return peers


def takes_ms(peers, milliseconds):
    """Lets each request of these connections take so long, on the clock of the first one."""
    clock = peers[0]

    def spend(exchange):
        clock.now += milliseconds

    for peer in peers:
        peer.on_request = spend


def test_a_request_is_handled_after_a_slice_of_a_client_that_floods():
    (flooder,) = flooded()
    other = Peer(held=False, beside=flooder)
    other.send(1)
    assert (len(flooder.exchanges), len(other.exchanges)) == (SLICE_REQUESTS, 1)
    flooder.turn()
    assert other.transport.answers() == [(1, 0)]
    assert len(flooder.exchanges) <= 2 * SLICE_REQUESTS


def test_between_two_slices_of_a_client_the_sockets_are_read():
    (flooder,) = flooded()
    other = Peer(held=False, beside=flooder)
    for number in range(20):
        handled = len(flooder.exchanges)
        flooder.turn()
        other.send(number)
        assert len(flooder.exchanges) - handled <= SLICE_REQUESTS
        assert len(other.exchanges) == number + 1


def test_a_flood_is_answered_completely_and_in_order_and_not_read_meanwhile():
    (flooder,) = flooded()
    assert not flooder.transport.reading
    turns = 0
    while flooder.soon:
        flooder.turn()
        turns += 1
    assert [number for number, _ in flooder.transport.answers()] == list(FLOOD)
    assert flooder.transport.reading
    assert turns >= len(FLOOD) // SLICE_REQUESTS


def test_clients_that_flood_take_turns_with_each_other():
    peers = flooded(connections=5)
    for _ in range(20):
        peers[0].turn()
        handled = [len(peer.exchanges) for peer in peers]
        assert max(handled) - min(handled) <= SLICE_REQUESTS


def test_a_turn_ends_when_its_time_is_used_up_and_everybody_gets_a_share():
    peers = flooded(connections=50)
    takes_ms(peers, 1)
    for _ in range(200):
        began = peers[0].now
        peers[0].turn()
        assert peers[0].now - began <= WAITING_MS + SLICE_REQUESTS
    handled = [len(peer.exchanges) for peer in peers]
    assert min(handled) > SLICE_REQUESTS
    assert max(handled) - min(handled) <= SLICE_REQUESTS


def test_a_request_that_finds_no_time_comes_before_the_floods_in_the_next_turn():
    peers = flooded(connections=50)
    takes_ms(peers, 5)
    late = [Peer(held=False, beside=peers[0]) for _ in range(3)]
    peers[0].turn()
    peers[0].now += TURN_MS
    peers[0].loop_turn.left = 0
    for peer in late:
        peer.send(1)
    assert [len(peer.exchanges) for peer in late] == [0, 0, 0]
    assert all(peer.transport.reading for peer in late), "one request is no reason to stop reading"
    handled = sum(len(peer.exchanges) for peer in peers)
    order = []
    peers[0].loop_turn.flush()
    for peer in late:
        peer.on_request = lambda exchange, peer=peer: order.append((peer, sum(len(each.exchanges) for each in peers)))
    peers[0].turn()
    assert order == [(peer, handled) for peer in late]
    assert [peer.transport.answers() for peer in late] == [[(1, 0)]] * 3


def test_the_second_request_behind_one_that_waits_stops_the_reading():
    (flooder,) = flooded()
    other = Peer(held=False, beside=flooder)
    flooder.loop_turn.left, flooder.now = 0, TURN_MS
    other.send(1)
    assert other.transport.reading
    other.send(2)
    assert not other.transport.reading
    flooder.turn()
    flooder.turn()
    assert other.transport.answers() == [(1, 0), (2, 0)]
    assert other.transport.reading


def test_large_responses_end_a_turn_in_which_no_time_passes():
    first = Peer(held=False)
    peers = [first, *(Peer(held=False, beside=first) for _ in range(9))]
    for peer in peers:
        peer.on_request = lambda exchange: setattr(exchange.route, "encode", lambda message: bytes(COUNTED_BYTES + 1))
    for peer in peers:
        peer.send(*range(20))
    handled = sum(len(peer.exchanges) for peer in peers)
    assert handled <= TURN_RESPONSE_BYTES // COUNTED_BYTES + 1
    for _ in range(20):
        first.turn()
    assert all(len(peer.exchanges) == 20 for peer in peers)


@pytest.mark.parametrize("ends", ["lost", "closed"])
def test_a_connection_that_ends_while_it_waits_is_forgotten(ends):
    flooder, other = flooded(connections=2)
    handled = len(flooder.exchanges)
    if ends == "lost":
        flooder.connection.connection_lost(None)
    else:
        flooder.connection.refuse("no reason")
    while other.soon:
        other.turn()
    assert len(flooder.exchanges) == handled
    assert len(other.exchanges) == len(FLOOD)


def test_a_request_that_closes_the_connection_ends_its_slice():
    (flooder,) = flooded()
    flooder.on_request = lambda exchange: exchange.close("refused")
    while flooder.soon:
        flooder.turn()
    assert len(flooder.exchanges) == SLICE_REQUESTS + 1


def test_requests_behind_a_parked_one_wait_for_it_and_then_for_their_turn():
    peer = Peer()
    peer.hold_next = True
    peer.send(*range(100))
    peer.turn()
    assert len(peer.exchanges) == 1
    peer.hold_next = False
    for exchange in peer.exchanges:
        exchange.reply(HeartbeatResponse())
    peer.on_request = lambda exchange: exchange.reply(HeartbeatResponse())
    peer.turn()
    assert len(peer.exchanges) <= 1 + SLICE_REQUESTS
    while peer.soon:
        peer.turn()
    assert [number for number, _ in peer.transport.answers()] == list(range(100))


def test_the_length_of_busy_turns_is_reported():
    (flooder,) = flooded()
    flooder.now += 7
    flooder.turn()
    assert flooder.turns_ms == [7]
    while flooder.soon:
        flooder.turn()
    assert len(flooder.turns_ms) > 10


# --- large requests ---------------------------------------------------------------------------------------------------


class LargeRequests:
    """Connections whose request 1 has a hundred pieces of work; any other is answered at once."""

    def __init__(self):
        self.done = 0
        self.peer, self.other = (first := Peer(frame_bytes=2 * COUNTED_BYTES)), Peer(beside=first)
        for peer in (self.peer, self.other):
            peer.on_request = self.handle
        self.fails_at = None

    def handle(self, exchange):
        if exchange.correlation_id == 1:
            exchange.run_in_slices(self.pieces(exchange))
        else:
            exchange.reply(HeartbeatResponse())

    def pieces(self, exchange):
        for number in range(100):
            if number == self.fails_at:
                raise self.error
            self.done += 1
            yield
        exchange.reply(HeartbeatResponse())

    def finish(self):
        while self.peer.soon:
            self.peer.turn()


def test_a_large_request_is_handled_in_slices_between_those_of_others():
    large = LargeRequests()
    large.peer.send(1)
    assert large.done == SLICE_PIECES
    for number in range(2, 10):
        large.other.send(number)
        large.peer.turn()
        assert large.other.transport.answers()[-1:] == [(number, 0)] or number == 2
        assert large.done == SLICE_PIECES * number
    large.finish()
    assert large.done == 100
    assert large.peer.transport.answers() == [(1, 0)]


def test_a_request_whose_decoding_takes_a_turn_leaves_the_next_piece_to_a_later_one():
    large = LargeRequests()

    def handle_late(exchange):
        large.peer.now += TURN_MS
        large.handle(exchange)

    large.peer.on_request = handle_late
    ids = ["x" * (COUNTED_BYTES // 3)] * 3
    large.peer.connection.data_received(request_frame(HeartbeatRequest(ids[0], 1, *ids[1:]), 4, 1, b"test"))
    assert large.done == 1
    large.finish()
    assert large.done == 100


def test_later_requests_of_the_connection_wait_for_a_large_one():
    large = LargeRequests()
    large.peer.send(1, 2, 3)
    large.peer.turn()
    assert len(large.peer.exchanges) == 1
    large.finish()
    assert [number for number, _ in large.peer.transport.answers()] == [1, 2, 3]


def test_two_large_requests_take_turns():
    large = LargeRequests()
    large.peer.send(1)
    large.other.send(1)
    large.finish()
    assert large.done == 200
    assert large.peer.transport.answers() == large.other.transport.answers() == [(1, 0)]


@pytest.mark.parametrize(("error", "code"), [
    (KafkaError(ErrorCode.INVALID_REQUEST), ErrorCode.INVALID_REQUEST),
    (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
])  # fmt: skip
@pytest.mark.parametrize("fails_at", [0, 50])
def test_an_error_in_a_piece_is_the_response(fails_at, error, code):
    large = LargeRequests()
    large.fails_at, large.error = fails_at, error
    large.peer.send(1, 2)
    large.finish()
    assert large.peer.transport.answers() == [(1, code), (2, 0)]


def test_the_work_ends_with_its_connection():
    large = LargeRequests()
    large.peer.send(1)
    large.peer.connection.connection_lost(None)
    large.finish()
    assert large.done == SLICE_PIECES


def test_connections_whose_responses_leave_together_do_not_all_begin_their_next_request_in_that_turn():
    """Replies that become durable together would otherwise start one request of each client that floods, however many."""
    first = Peer(in_flight=1)
    peers = [first, *(Peer(in_flight=1, beside=first) for _ in range(99))]
    for peer in peers:
        peer.send(1, 2, 3)
    takes_ms(peers, 1)
    for peer in peers:
        peer.answer(0)
        peer.loop_turn.left = 0
    began = first.now
    first.turn()
    assert first.now - began <= TURN_MS + 2 * LOOK_BYTES // REQUEST_BYTES
    for _ in range(20):
        first.turn()
    assert all(len(peer.exchanges) == 2 for peer in peers)


def test_background_work_goes_on_behind_a_piece_that_fails(caplog):
    peer, done = Peer(held=False), []

    def work(number):
        peer.now += TURN_MS
        yield
        done.append(number)
        if number == 1:
            raise ValueError("a bug")

    background = BackgroundWork(peer.connection.turn)
    for number in range(3):
        background.add(work(number))
    for _ in range(10):
        peer.turn()
    assert done == [0, 1, 2]
    assert "event=background_work_failed" in caplog.text


class Taker:
    """Work that waits for a slice, and notes when it gets one."""

    def __init__(self, name, order):
        self.name, self.order = name, order

    def take_slice(self):
        self.order.append(self.name)


def test_heartbeats_come_before_other_requests_that_found_no_time_and_these_before_floods():
    """A client with a costly request on each of its connections does not make a heartbeat wait for all of them."""
    peer, order = Peer(held=False), []
    for name in ("join 1", "join 2"):
        peer.loop_turn.wait(Taker(name, order), is_new=True)
    peer.loop_turn.wait(Taker("flood", order), is_new=False)
    peer.loop_turn.wait_first(Taker("heartbeat", order))
    peer.turn()
    assert order == ["heartbeat", "join 1", "join 2", "flood"]


def test_heartbeats_leave_a_slice_of_each_turn_to_the_others():
    peer, order = Peer(held=False), []

    class Slow(Taker):
        def take_slice(self):
            super().take_slice()
            peer.now += TURN_MS

    for number in range(3):
        peer.loop_turn.wait_first(Slow(f"heartbeat {number}", order))
    peer.loop_turn.wait(Taker("join", order), is_new=True)
    peer.turn()
    assert order == ["heartbeat 0", "join"]
    peer.turn()
    assert order == ["heartbeat 0", "join", "heartbeat 1"]


def test_a_heartbeat_that_found_no_time_waits_before_those_that_came_earlier():
    (flooder,) = flooded()
    other, order = Peer(held=False, beside=flooder), []
    other.on_request = lambda exchange: order.append("heartbeat")
    flooder.loop_turn.wait(Taker("join", order), is_new=True)
    flooder.loop_turn.left, flooder.now = 0, TURN_MS
    other.send(1)
    assert order == []
    flooder.turn()
    assert order == ["heartbeat", "join"]

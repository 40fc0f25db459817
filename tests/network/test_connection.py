"""A connection answers in order, stays within its limits, and logs why it closes."""

import pytest

from coordinator.client.conversation import request_frame
from coordinator.network.turn import SLICE_REQUESTS
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.runtime.memory import COUNTED_BYTES
from tests.support.peer import Peer, request


def test_responses_leave_in_the_order_of_the_requests():
    peer = Peer()
    peer.send(1, 2, 3)
    peer.answer(2)
    peer.answer(1)
    peer.turn()
    assert peer.transport.answers() == []
    peer.answer(0)
    peer.turn()
    assert [number for number, _ in peer.transport.answers()] == [1, 2, 3]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1_000])
def test_requests_do_not_depend_on_how_the_stream_is_cut(piece):
    peer = Peer(held=False)
    stream = b"".join(request(number) for number in range(20))
    for position in range(0, len(stream), piece):
        peer.connection.data_received(stream[position : position + piece])
        peer.turn()
    assert [number for number, _ in peer.transport.answers()] == list(range(20))


def test_a_second_response_to_a_request_is_ignored():
    peer = Peer()
    peer.send(1)
    peer.answer(0)
    peer.answer(0)
    peer.turn()
    assert len(peer.transport.answers()) == 1


def test_reading_stops_at_the_in_flight_limit_until_responses_leave():
    peer = Peer(in_flight=2)
    peer.send(1, 2, 3, 4, 5)
    assert len(peer.exchanges) == 2
    assert not peer.transport.reading
    peer.answer(0)
    peer.turn()
    assert len(peer.exchanges) == 3
    for number in range(1, 5):
        peer.answer(number)
        peer.turn()
    assert [number for number, _ in peer.transport.answers()] == [1, 2, 3, 4, 5]
    assert peer.transport.reading


def test_requests_behind_a_parked_one_wait_for_its_response():
    peer = Peer()
    peer.hold_next = True
    peer.send(1, 2)
    peer.send(3)
    assert len(peer.exchanges) == 1
    assert not peer.transport.reading
    peer.hold_next = False
    peer.answer(0)
    peer.turn()
    assert len(peer.exchanges) == 3
    assert peer.transport.reading


def test_a_burst_of_requests_that_are_answered_at_once_is_not_delayed():
    peer = Peer(in_flight=2, held=False)
    peer.send(*range(SLICE_REQUESTS))
    peer.turn()
    assert [number for number, _ in peer.transport.answers()] == list(range(SLICE_REQUESTS))
    assert peer.transport.reading


def test_reading_stops_while_the_write_buffer_is_full():
    peer = Peer(held=False)
    peer.connection.pause_writing()
    assert not peer.transport.reading
    peer.connection.resume_writing()
    assert peer.transport.reading


def test_the_backlog_waits_while_the_write_buffer_is_full():
    peer = Peer(in_flight=2)
    peer.send(1, 2, 3, 4)
    peer.connection.pause_writing()
    for number in range(2):
        peer.answer(number)
    peer.turn()
    assert len(peer.transport.answers()) == len(peer.exchanges) == 2
    peer.connection.resume_writing()
    assert len(peer.exchanges) == 4


def test_garbage_closes_the_connection_after_earlier_responses(caplog):
    peer = Peer(held=False)
    peer.send(1)
    peer.connection.data_received(b"\0\0\0\x04\x00\x0c\x7f\xff")
    peer.connection.data_received(request(2))
    assert peer.transport.answers() == [(1, 0)]
    assert peer.transport.closed
    assert "connection_closed" in caplog.text


def test_nothing_behind_a_request_that_closed_the_connection_is_handled():
    peer = Peer()
    peer.on_request = lambda exchange: exchange.close("refused") if exchange.correlation_id == 2 else None
    peer.send(1, 2, 3)
    peer.send(4)
    assert [exchange.correlation_id for exchange in peer.exchanges] == [1, 2]
    assert peer.transport.closed


@pytest.mark.parametrize("size", [-1, 1_001, 0x7FFFFFFF])
def test_a_frame_of_impossible_size_closes_the_connection(size, caplog):
    peer = Peer()
    peer.connection.data_received(size.to_bytes(4, "big", signed=True))
    assert peer.transport.closed
    assert str(size) in caplog.text


@pytest.mark.parametrize("requests", [0, 1])
def test_a_frame_without_a_byte_closes_the_connection(requests, caplog):
    peer = Peer(held=False)
    peer.send(*range(requests))
    peer.connection.data_received(bytes(4))
    assert peer.transport.closed
    assert "connection_closed" in caplog.text


def test_a_frame_of_the_largest_size_is_read():
    peer = Peer(held=False, frame_bytes=len(request(1)) - 4)
    peer.send(1)
    peer.turn()
    assert peer.transport.answers() == [(1, 0)]
    assert not peer.transport.closed


def test_a_lost_connection_drops_responses_and_cancels_waits():
    peer, gone = Peer(), []
    peer.send(1)
    peer.exchanges[0].on_close = lambda: gone.append(1)
    peer.connection.connection_lost(None)
    peer.answer(0)
    peer.turn()
    assert gone == [1]
    assert peer.transport.written == b""
    assert peer.lost == [peer.connection]


def test_quiet_time_counts_from_the_sweep_that_saw_the_last_change():
    peer = Peer(held=False)
    first, second = request(1), request(2)
    assert peer.connection.quiet_ms(300_000) == (300_000, False)
    peer.connection.data_received(first[:10])
    assert peer.connection.quiet_ms(301_000) == (0, True)
    peer.connection.data_received(first[10:20])
    assert peer.connection.quiet_ms(311_000) == (10_000, True)
    peer.connection.data_received(first[20:] + second[:10])
    assert peer.connection.quiet_ms(312_000) == (0, True)
    peer.connection.data_received(second[10:])
    assert peer.connection.quiet_ms(313_000) == (0, False)
    assert peer.connection.quiet_ms(399_000) == (86_000, False)


# --- memory -----------------------------------------------------------------------------------------------------------

LARGE = COUNTED_BYTES * 4


def large_request(correlation_id):
    asked = HeartbeatRequest(group_id="g", member_id="m")
    small = request_frame(asked, 4, correlation_id, b"test")
    padding = bytes(LARGE - len(small))  # what is behind a request is ignored
    return (LARGE - 4).to_bytes(4) + small[4:] + padding


def test_a_large_request_is_counted_from_its_first_bytes_until_it_is_handled():
    peer = Peer(held=False, frame_bytes=LARGE)
    data = large_request(1)
    peer.connection.data_received(data[:100])
    assert peer.memory.held_bytes == LARGE
    peer.connection.data_received(data[100:-1])
    assert peer.memory.held_bytes == LARGE
    peer.connection.data_received(data[-1:])
    assert peer.memory.held_bytes == 0
    peer.turn()
    assert peer.transport.answers() == [(1, 0)]


def test_a_large_request_is_not_read_until_there_is_memory():
    peer = Peer(held=False, frame_bytes=LARGE, memory_bytes=LARGE)
    peer.memory.take(LARGE)
    data = large_request(1)
    peer.connection.data_received(data[:100])
    assert not peer.transport.reading
    assert (peer.memory.held_bytes, peer.memory.waiting) == (LARGE, 1)
    peer.now = 29_000
    peer.memory.give_back(LARGE)
    peer.turn()
    assert peer.transport.reading
    assert peer.memory.held_bytes == LARGE
    assert peer.connection.quiet_ms(30_000) == (1_000, True), "it has its whole time yet"
    peer.connection.data_received(data[100:])
    peer.turn()
    assert peer.transport.answers() == [(1, 0)]
    assert peer.memory.held_bytes == 0


def test_small_requests_are_served_while_there_is_no_memory():
    peer = Peer(held=False, memory_bytes=LARGE)
    peer.memory.take(LARGE)
    peer.send(1, 2, 3)
    peer.turn()
    assert len(peer.transport.answers()) == 3


def test_large_requests_in_the_backlog_stay_counted():
    peer = Peer(in_flight=1, frame_bytes=LARGE)
    data = large_request(2)
    peer.connection.data_received(request(1) + data[:100])
    peer.connection.data_received(data[100:])
    assert peer.memory.held_bytes == LARGE
    peer.answer(0)
    peer.turn()
    assert len(peer.exchanges) == 2
    assert peer.memory.held_bytes == 0


def test_a_connection_that_ends_gives_everything_back():
    for memory_bytes in (1 << 20, 0):
        peer = Peer(in_flight=1, frame_bytes=LARGE, memory_bytes=memory_bytes)
        peer.connection.data_received(request(1) + large_request(2)[:100])
        peer.connection.count(LARGE)
        peer.connection.connection_lost(None)
        assert (peer.memory.held_bytes, peer.memory.waiting) == (0, 0)


def test_a_large_response_is_counted_until_its_client_has_read_it():
    peer = Peer()
    peer.send(1)
    exchange = peer.exchanges[0]
    exchange.route.encode = lambda message: bytes(LARGE)
    peer.transport.on_write = peer.connection.pause_writing
    exchange.reply(HeartbeatResponse())
    assert peer.memory.held_bytes == LARGE
    peer.turn()
    assert peer.memory.held_bytes == LARGE
    peer.connection.resume_writing()
    assert peer.memory.held_bytes == 0


def test_a_large_response_leaves_at_once_and_is_not_copied():
    peer = Peer()
    peer.send(1, 2)
    records = bytes(LARGE)
    for exchange in peer.exchanges:
        exchange.route.encode_parts = lambda message: [b"before", records, b"behind"]
    peer.exchanges[1].reply_in_parts(HeartbeatResponse())
    assert peer.transport.written == b"", "it is not its turn"
    peer.exchanges[0].reply_in_parts(HeartbeatResponse())
    assert sum(part is records for part in peer.transport.parts) == 2
    assert len(peer.transport.written) == 2 * (len(records) + len(b"beforebehind") + 4 + 4 + 1)
    peer.turn()
    assert peer.memory.held_bytes == 0


def test_a_large_response_behind_a_missing_one_stays_counted():
    peer = Peer()
    peer.send(1, 2, 3)
    peer.exchanges[0].route.encode = lambda message: bytes(LARGE)
    peer.exchanges[2].reply(HeartbeatResponse())
    peer.turn()
    assert peer.memory.held_bytes >= LARGE
    peer.exchanges[0].send(b"1")
    peer.turn()
    assert LARGE <= peer.memory.held_bytes < 2 * LARGE
    peer.exchanges[1].send(b"2")
    peer.turn()
    assert peer.memory.held_bytes == 0


def test_no_request_is_handled_while_a_large_response_is_unread():
    peer = Peer(held=False)
    route_of_first = []

    def answer(message):
        route_of_first.append(message)
        return bytes(LARGE)

    peer.send(0)
    peer.turn()
    peer.exchanges[0].route.encode = answer
    peer.transport.on_write = peer.connection.pause_writing
    peer.send(1, 2, 3, 4)
    assert len(route_of_first) == 1
    assert not peer.transport.reading

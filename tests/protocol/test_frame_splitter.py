"""The frames of a stream do not depend on how it is cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol.frame import FrameError, FrameSplitter


def stream(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@settings(max_examples=150)
@given(frames=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_frames_do_not_depend_on_how_the_stream_is_cut(frames: list[bytes], cuts: list[int]):
    """Whole, in pieces, or byte by byte."""
    data = stream(frames)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    for parts in (pieces, [data[index : index + 1] for index in range(len(data))]):
        splitter = FrameSplitter(100, 200)
        assert [frame for part in parts for frame in splitter.feed(part)] == frames
        assert len(splitter.rest) == 0


def test_an_incomplete_frame_waits():
    """Its bytes can be counted, so that the server can limit them."""
    splitter = FrameSplitter(100, 200)
    assert splitter.feed(stream([b"ab"]) + b"\0\0\0\x05abc") == [b"ab"]
    assert len(splitter.rest) == 7
    assert splitter.feed(b"de" + stream([b""])) == [b"abcde", b""]


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "TLS on a plain port; the client needs security.protocol=PLAINTEXT"),
        (b"GET / HTTP/1.1", "HTTP on a port for Kafka clients; HTTP is served by the admin address"),
        (b"POST /v1/groups", "HTTP on a port for Kafka clients"),
    ],
)
def test_the_beginning_of_another_protocol_is_named(start: bytes, named: str):
    for pieces in ([start], [start[:3], start[3:]]):
        splitter = FrameSplitter(100, 200)
        with pytest.raises(FrameError, match=named):
            for piece in pieces:
                splitter.feed(piece)


@pytest.mark.parametrize("size", [-1, -(2**31), 201, 2**31 - 1, 0x48545450])
def test_a_bad_size_is_refused_at_once(size: int):
    """Negative, above the limit, or four letters of HTTP."""
    announced = size.to_bytes(4, "big", signed=True)
    with pytest.raises(FrameError, match=f"a frame of {size} bytes"):
        FrameSplitter(100, 200).feed(announced)
    splitter = FrameSplitter(100, 200)
    splitter.feed(announced[:1])
    with pytest.raises(FrameError):
        splitter.feed(announced[1:])


def test_the_largest_frame_passes():
    """The limit itself is allowed."""
    assert FrameSplitter(100, 200).feed(stream([b"x" * 100])) == [b"x" * 100]


def test_a_large_frame_in_small_pieces_is_not_copied_again_and_again():
    """The waiting bytes stay in one buffer that grows in place: feeding makes no object of their size."""
    import tracemalloc

    splitter = FrameSplitter(1 << 22, 1 << 22)
    size = 1 << 21
    splitter.feed(size.to_bytes(4, "big") + bytes(size // 2))
    piece = bytes(100)
    tracemalloc.start()
    try:
        for _ in range(50):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            assert splitter.feed(piece) == []
            assert tracemalloc.get_traced_memory()[1] - before < size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("key", "size_max"), [(0, 200), (1, 100), (12, 100), (256, 100)])
def test_only_a_produce_request_may_be_larger(key: int, size_max: int):
    """One byte more is refused as soon as the API is known, however the stream is cut."""
    body = key.to_bytes(2, "big").ljust(size_max, b".")
    more = key.to_bytes(2, "big").ljust(size_max + 1, b".")
    for step in (1, 3, 1_000):
        splitter = FrameSplitter(100, 200)
        data = stream([body, body])
        frames = [frame for at in range(0, len(data), step) for frame in splitter.feed(data[at : at + step])]
        assert frames == [body, body]
        with pytest.raises(FrameError, match=str(size_max)):
            for at in range(0, 6, step):
                splitter.feed(stream([more])[:6][at : at + step])


def test_the_size_of_a_frame_that_has_begun_is_known():
    splitter = FrameSplitter(100, 200)
    splitter.feed(b"\0\0\0")
    assert splitter.announced_bytes == 0
    splitter.feed(b"\x32")
    assert splitter.announced_bytes == 54
    splitter.feed(bytes(50))
    assert splitter.announced_bytes == 0

"""Functions that a story may call where raw bytes would be unreadable."""

import struct
import time
from collections.abc import Callable
from typing import Any

from tests.support.record_batch import TRANSACTIONAL, Batch


def subscription(*topics: str, v: int = 1, **more: Any) -> bytes:
    """A ConsumerProtocol subscription. `owned` maps topics to partitions (v1+), `generation` is v2+, `rack` v3+.

    `order: kip` puts the generation where KIP-792 wrote it: before the user data.
    """
    out = struct.pack(">h", v) + array([text(topic) for topic in topics])
    user = more.get("user")
    user = user.encode() if isinstance(user, str) else user
    generation = struct.pack(">i", more.get("generation", -1)) if v >= 2 else b""
    if more.get("order") == "kip":
        out, generation = out + generation, b""
    out += struct.pack(">i", -1) if user is None else struct.pack(">i", len(user)) + user
    if v >= 1:
        owned = more.get("owned", {})
        out += array([text(topic) + array([struct.pack(">i", p) for p in ps]) for topic, ps in owned.items()])
    out += generation
    if v >= 3:
        out += struct.pack(">h", -1) if more.get("rack") is None else text(more["rack"])
    return out


def assignment(held: dict[str, list[int]], v: int = 1, user: str | None = None) -> bytes:
    """A ConsumerProtocol assignment. `user` is the assignor's own data."""
    topics = [text(topic) + array([struct.pack(">i", p) for p in partitions]) for topic, partitions in held.items()]
    user_data = struct.pack(">i", -1) if user is None else struct.pack(">i", len(user)) + user.encode()
    return struct.pack(">h", v) + array(topics) + user_data


def read_assignment(data: bytes) -> tuple[dict[str, list[int]], int] | None:
    """Inverts `assignment` for bytes without user data: (partitions by topic, version), or None if it cannot have made them."""
    held: dict[str, list[int]] = {}
    try:
        version, topics = struct.unpack_from(">hi", data)
        at = 6
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (count,) = struct.unpack_from(">i", data, at)
            held[name] = list(struct.unpack_from(f">{count}i", data, at + 4))
            at += 4 + 4 * count
    except (struct.error, UnicodeDecodeError):
        return None
    return (held, version) if 0 <= version <= 3 and assignment(held, version) == data else None


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def batch(values: list[str], producer: int = -1, epoch: int = -1, sequence: int = -1, **more: Any) -> bytes:
    """A record batch of these values.

    `time` is the timestamp of its records in ms, by default now; all have the `key` and `headers`. `damaged: true` corrupts its
    CRC; `transactional: true` makes it part of its producer's transaction.
    """
    made = Batch(
        values=[value.encode() for value in values],
        timestamp_ms=more.get("time", int(time.time() * 1000)),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL if more.get("transactional") else 0,
        key=more["key"].encode() if "key" in more else None,
        headers=tuple((name.encode(), value.encode()) for name, value in more.get("headers", {}).items()),
    ).encode()
    return made[:-1] + bytes([made[-1] ^ 1]) if more.get("damaged") else made


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "subscription": subscription,
    "assignment": assignment,
    "generation": struct.Struct(">i").pack,
    "batch": batch,
    "repeat": lambda letter, count: letter * count,
}

"""Warnings that clients can cause at will take bounded memory and bounded lines."""

import logging
import tracemalloc

from coordinator.network.log_once import LINES_PER_MINUTE_MAX, LogOncePerClient
from coordinator_lab.simulation.clock import ManualClock


def make():
    clock = ManualClock(0)
    return LogOncePerClient(logging.getLogger("test"), clock.monotonic_ms), clock


def test_the_reason_of_a_close_is_logged_once_per_client(caplog):
    once, _ = make()
    for _ in range(3):
        once.warn(("host", "client"), "event=connection_closed")
    once.warn(("host", "other client"), "event=connection_closed")
    assert caplog.text.count("connection_closed") == 2


def test_clients_with_new_names_are_logged_up_to_a_number_per_minute(caplog):
    once, clock = make()
    for number in range(LINES_PER_MINUTE_MAX + 50):
        once.warn(("host", str(number)), "event=connection_closed")
    assert len(caplog.records) == LINES_PER_MINUTE_MAX
    caplog.clear()
    clock.advance(60_000)
    once.warn(("host", "later"), "event=connection_closed")
    once.warn(("host", "even later"), "event=connection_closed")
    assert [record.getMessage() for record in caplog.records] == [
        "event=warnings_left_out count=50",
        "event=connection_closed",
        "event=connection_closed",
    ]


def test_long_names_are_not_kept():
    once, _ = make()
    tracemalloc.start()
    try:
        for number in range(2_000):
            once.warn(("host", f"{number}" + "\ufffd" * 32_760), "event=connection_closed client=%s", "c")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20

"""What recordings keep in memory."""

import gc

from coordinator.rules import recordings
from coordinator.rules.matching import Seen

HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


async def test_entries_that_made_room_before_they_were_finished_do_not_count_as_kept(world, monkeypatch):
    """Otherwise a recording would keep ever fewer entries."""
    monkeypatch.setattr(recordings, "BYTES_MAX", 3_000)
    recording = world.record({"api": "Heartbeat"}, limit=2)
    world.fault({"api": "Heartbeat"}, {"hold": "request"}, until="cleared")
    clients = [await world.client() for _ in range(20)]
    for client in clients:
        client.send("Heartbeat", 4, **HEARTBEAT)
    await clients[0].silent()
    world.clear()
    for client in clients:
        await client.receive()
    for _ in range(2):
        await clients[0].call("Heartbeat", 4, **HEARTBEAT)
    assert (recording.status.entries, recording.status.dropped) == (2, 20)


async def test_a_recorded_request_is_freed_when_it_is_answered(world):
    """At once: a collector that runs now and then would let a thousand large requests gather."""
    world.record({"api": "Heartbeat"})
    client = await world.client()
    await client.call("Heartbeat", 4, **HEARTBEAT)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            await client.call("Heartbeat", 4, **HEARTBEAT)
        assert sum(isinstance(each, Seen) for each in gc.get_objects()) <= 1
    finally:
        gc.enable()

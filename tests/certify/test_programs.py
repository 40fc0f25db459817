"""The instances of a program as processes: what the stage does to them, and what it remembers."""

import asyncio
import sys

from coordinator_testing.certify.case import InstanceHistory
from coordinator_testing.certify.programs import Instance
from tests.support.waiting import wait_until

LOOP = """
import os, signal, sys, time
print("instance", os.environ["INSTANCE"], flush=True)
def stop(*_):
    print("stopped", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
while True:
    time.sleep(0.01)
"""


def instance(tmp_path, program: str = LOOP) -> Instance:
    history = InstanceHistory(index=0, listener="127.0.0.1:1")
    return Instance(history, [sys.executable, "-c", program], {"INSTANCE": "7"}, tmp_path / "output.log")


async def printed(process: Instance, text: str) -> None:
    await asyncio.to_thread(wait_until, lambda: text in process.printed(), process.printed)


async def test_sigterm_lets_an_instance_end_in_an_orderly_way(tmp_path):
    process = instance(tmp_path)
    await process.start()
    await printed(process, "instance 7")
    assert await process.stop()
    [run] = process.history.runs
    assert (run.ended_by, run.exit_code) == ("stage", 0)
    assert "stopped" in process.printed()


async def test_an_instance_that_ignores_sigterm_is_killed(tmp_path):
    process = instance(tmp_path, LOOP.replace("sys.exit(0)", "pass"))
    await process.start()
    await printed(process, "instance 7")
    assert not await process.stop(within_s=0.1)
    assert process.history.runs[0].exit_code == -9


async def test_an_instance_that_ends_by_itself_is_known_with_its_exit_code(tmp_path):
    process = instance(tmp_path, "raise SystemExit(3)")
    await process.start()
    await asyncio.to_thread(wait_until, lambda: process.history.runs[0].ended_ms is not None)
    await process.stop()
    assert (process.history.runs[0].ended_by, process.history.runs[0].exit_code) == ("itself", 3)


async def test_a_process_has_started_before_its_first_request_can_arrive(tmp_path, monkeypatch):
    """However late the stage goes on after the start, as on a busy machine."""
    process = instance(tmp_path, "import time; print(time.time_ns() // 1_000_000)")
    start = asyncio.create_subprocess_exec

    async def start_and_be_busy(*command, **options):
        started = await start(*command, **options)
        await started.wait()
        return started

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_be_busy)
    await process.start()
    assert process.history.runs[0].started_ms < int(process.printed())
    await process.stop()


async def test_an_instance_that_was_killed_can_be_started_again(tmp_path):
    process = instance(tmp_path)
    await process.start()
    await process.kill()
    assert not process.runs
    await process.start()
    assert process.runs
    process.pause()
    await process.kill()
    assert [run.exit_code for run in process.history.runs] == [-9, -9]


async def test_a_paused_instance_does_nothing_until_it_resumes(tmp_path):
    process = instance(tmp_path)
    await process.start()
    await printed(process, "instance 7")
    process.pause()
    process.resume()
    assert len(process.history.pauses) == 1
    assert await process.stop()

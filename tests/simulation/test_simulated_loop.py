"""The simulated loop leaves nothing behind for later tests."""

import asyncio
import gc
import logging
from random import Random

from coordinator_lab.simulation.loop import Process, SimulatedLoop


async def report_what_ends_it():
    try:
        await asyncio.sleep(3600)
    except BaseException:  # as uvicorn does around an application
        logging.getLogger("uvicorn.error").exception("it ended")
        raise


def test_requests_under_way_in_a_dead_process_log_nothing_when_they_are_collected(caplog):
    """CPython 3.11 fails an `ast.parse` during which the garbage collector formats a traceback, wherever that happens."""
    loop, process = SimulatedLoop(Random(1)), Process("server")
    loop.spawn(process, report_what_ends_it())
    loop.run_until_complete(asyncio.sleep(1))
    loop.kill(process)
    loop.close()
    loop.finalize()
    del loop, process
    gc.collect()
    assert caplog.records == []

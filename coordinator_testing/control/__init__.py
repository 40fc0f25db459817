"""The client of a server's control, for tests in Python: `Control` and, for asyncio, `AsyncControl` (docs/control.md).

with Control("http://127.0.0.1:9644") as control:
    fault = control.fault(api="Heartbeat", group="billing", error="ILLEGAL_GENERATION")
    fault.wait(acted=1)
"""

from coordinator_testing.control.asynchronous import AsyncControl
from coordinator_testing.control.blocking import Control
from coordinator_testing.control.errors import ControlError, ControlOff, ControlRefused, ControlUnreachable, NotReached
from coordinator_testing.control.transport import Access

__all__ = [
    "Access",
    "AsyncControl",
    "Control",
    "ControlError",
    "ControlOff",
    "ControlRefused",
    "ControlUnreachable",
    "NotReached",
]

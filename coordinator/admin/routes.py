"""All endpoints of admin HTTP: the modules that have some. To add one, export `ENDPOINTS` (endpoint.py) and list the module."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType

from coordinator.admin import (
    acting,
    api,
    brokers,
    browser_page,
    clock,
    emulation,
    event_stream,
    faults,
    health,
    index,
    metrics,
    openapi,
    overview,
    recordings,
    records,
    topics,
    why,
    worker_list,
)
from coordinator.admin.endpoint import Endpoint

MODULES: tuple[ModuleType, ...] = (
    index, openapi, browser_page, health, metrics, overview, api, acting, brokers, clock, emulation, event_stream, faults,
    recordings, topics, records, why, worker_list,
)  # fmt: skip


@cache
def all_endpoints() -> Sequence[Endpoint]:
    """The endpoints of all modules."""
    return tuple(endpoint for module in MODULES for endpoint in module.ENDPOINTS)

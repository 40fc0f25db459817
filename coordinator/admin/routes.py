"""All endpoints of admin HTTP: the modules that have some. To add one, export `ENDPOINTS` (endpoint.py) and list the module."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType

from coordinator.admin import acting, api, browser_page, clock, event_stream, health, index, metrics, topics
from coordinator.admin.endpoint import Endpoint

MODULES: tuple[ModuleType, ...] = (index, browser_page, health, metrics, api, acting, clock, topics, event_stream)


@cache
def all_endpoints() -> Sequence[Endpoint]:
    """The endpoints of all modules."""
    return tuple(endpoint for module in MODULES for endpoint in module.ENDPOINTS)

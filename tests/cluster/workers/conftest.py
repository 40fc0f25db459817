"""A world of workers for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.workers.world import PATIENT, SHORT_LEASES, Workers, workers


@pytest.fixture
def short_leases() -> None:
    """Leases in the `world` of the test end in time, even of a worker that a busy machine keeps from its beats."""


@pytest.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Workers]:
    """Workers of one engine in memory; those that still run are stopped after the test."""
    async with workers(tmp_path, SHORT_LEASES if "short_leases" in request.fixturenames else PATIENT) as world:
        yield world

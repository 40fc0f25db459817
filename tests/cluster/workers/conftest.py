"""A world of workers for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.workers.world import Workers, workers


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Workers]:
    """Workers of one engine in memory; those that still run are stopped after the test."""
    async with workers(tmp_path) as world:
        yield world

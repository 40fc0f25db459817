"""A world of workers for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.workers.world import PATIENT, Workers, workers


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Workers]:
    """Workers of one engine in memory; those that still run are stopped after the test."""
    async with workers(tmp_path) as world:
        yield world


@pytest.fixture
async def patient_world(tmp_path: Path) -> AsyncIterator[Workers]:
    """As `world`; no lease ends while the machine is busy."""
    async with workers(tmp_path, PATIENT) as world:
        yield world

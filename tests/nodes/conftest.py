"""What the tests of several brokers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nodes.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()

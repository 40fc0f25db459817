import pytest

from tests.rules.world import running


@pytest.fixture
async def world(tmp_path):
    async with running(tmp_path) as running_world:
        yield running_world

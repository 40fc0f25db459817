"""What ends with a test."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack

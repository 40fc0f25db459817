"""A progress bar for work that takes a while, if stderr is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHOWN_AFTER_S = 0.5
"""Work that takes less time has no progress bar."""


Advance = Callable[[int], object]
"""Adds a number of bytes to the progress."""


@contextmanager
def progress(what: str, total_bytes: int) -> Iterator[Advance]:
    """`with progress("checking", size) as advance: advance(bytes)`."""
    from tqdm import tqdm  # noqa: PLC0415 - importing it takes longer than most checks

    with tqdm(
        total=total_bytes, desc=what, unit="B", unit_scale=True, disable=None, delay=SHOWN_AFTER_S, leave=False
    ) as bar:
        yield bar.update

"""A bar on a terminal, for work that a person would otherwise wonder about; nothing where stderr is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHOWN_AFTER_S = 0.5
"""Work that is over by then needs no bar."""


Advance = Callable[[int], object]
"""Tells of bytes done."""


@contextmanager
def progress(what: str, total_bytes: int) -> Iterator[Advance]:
    """`with progress("checking", size) as advance: advance(bytes)`."""
    from tqdm import tqdm  # noqa: PLC0415 - costs more to import than most checks take

    with tqdm(
        total=total_bytes, desc=what, unit="B", unit_scale=True, disable=None, delay=SHOWN_AFTER_S, leave=False
    ) as bar:
        yield bar.update

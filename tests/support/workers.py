"""Tests in several processes of pytest-xdist: which of them share a process, in which order they begin, and which run alone."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

OWNED = {
    "spark": "spark",
    "kafka_cluster": "kafka_cluster",
    "kafka_servers": "kafka_servers",
    "our_servers": "our_servers",
    "postgresql_cluster": "postgresql_cluster",
    "database": "database",
}
"""Session fixtures that take long to start, and the group of the tests that use them: one process starts them once.

They stop when their group ends: an idle broker takes a twentieth of a core, and a run has several.
"""
FIRST = ("spark", "kafka", "java", "database", "browser", "process")
"""Tests with these markers begin first, so that short tests remain for whichever process has time at the end."""


def divide(items: list[pytest.Item]) -> None:
    """Puts tests that share a server into one group, and the groups that take longest first."""
    for item in items:
        if item.get_closest_marker("process"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    ranks: dict[str, int] = {}
    for item in items:
        ranks[_key(item)] = min(ranks.get(_key(item), len(FIRST)), _rank(item))
    places = {key: place for place, key in enumerate(ranks)}
    items.sort(key=lambda item: (ranks[_key(item)], places[_key(item)]))


def close_group(item: pytest.Item, next_item: pytest.Item | None) -> None:
    """Stops what the tests of the item's group shared, unless the next test is of this group, too."""
    if next_item is None or _key(next_item) == _key(item):
        return
    for name in OWNED:
        for fixture in item.session._fixturemanager._arg2fixturedefs.get(name, ()):
            fixture.finish(item._request)  # type: ignore[attr-defined]


def _group(item: pytest.Item) -> str:
    fixtures = {*getattr(item, "fixturenames", ())}
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        # A fixture may be asked for by the value of a parameter.
        asked = [value for value in item.callspec.params.values() if isinstance(value, str)]
        fixtures |= {*asked, *(f"{name}_cluster" for name in asked)}
    return next((OWNED[name] for name in OWNED if name in fixtures), item.nodeid.partition("::")[0])


def _key(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else item.nodeid


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, name in enumerate(FIRST) if item.get_closest_marker(name)), len(FIRST))


@contextmanager
def turn(item: pytest.Item) -> Iterator[None]:
    """Waits until a test may run: beside others, or alone if it is marked so."""
    if not hasattr(item.config, "workerinput"):
        yield
        return
    folder: Path = item.config._tmp_path_factory.getbasetemp().parent  # the processes of a run share it
    with (folder / "gate").open("w") as gate, (folder / "tests").open("w") as tests:
        # A test that waits to be alone keeps the gate, or the others would never let it in.
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(tests, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield

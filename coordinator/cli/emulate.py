"""`coordinator emulate`: the releases of Kafka that a server can be for its clients, and in what they differ."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Group, examples, refused

if TYPE_CHECKING:
    from coordinator.protocol.releases import View


@click.group(cls=Group)
def emulate() -> None:
    """Show the releases of Kafka that a server can be for its clients, and in what they differ."""


@emulate.command("list", epilog=examples("coordinator emulate list"))
@json_option
def list_(as_json: bool) -> int:
    """Show the releases, and how many APIs each has."""
    views = _views()
    return _show(as_json, ("RELEASE", "APIS"), [(name, len(view.versions)) for name, view in views.items()])


@emulate.command(epilog=examples("coordinator emulate show 3.6"))
@click.argument("release")
@json_option
def show(release: str, as_json: bool) -> int:
    """Show the APIs of RELEASE with their versions, its features, and what it does otherwise than 4.4."""
    views = _views()
    if release not in views:
        return _unknown(release, views)
    return _show(as_json, ("WHAT", "IN " + release), list(views[release].facts().items()))


@emulate.command(epilog=examples("coordinator emulate diff 2.8 3.9"))
@click.argument("first")
@click.argument("second")
@json_option
def diff(first: str, second: str, as_json: bool) -> int:
    """Show what clients see differently in two releases."""
    views = _views()
    for release in (first, second):
        if release not in views:
            return _unknown(release, views)
    before, after = views[first].facts(), views[second].facts()
    rows = [
        (what, before.get(what, "-"), after.get(what, "-"))
        for what in sorted(before.keys() | after.keys())
        if before.get(what) != after.get(what)
    ]
    return _show(as_json, ("WHAT", "IN " + first, "IN " + second), rows)


def _views() -> Mapping[str, "View"]:
    from coordinator import requests
    from coordinator.api.declaration import supported_apis
    from coordinator.config import features
    from coordinator.config.settings import ServerConfig
    from coordinator.protocol.releases import views
    from coordinator.topics.registry import Registry

    levels = features.levels(ServerConfig(), Registry())
    return views(
        {api.name: api.versions for api in supported_apis(requests).values()},
        {name: (*given, levels[name]) for name, given in features.SUPPORTED.items()},
    )


def _unknown(release: str, known: Mapping[str, "View"]) -> int:
    return refused(f"there is no release {release!r} to emulate; there are {', '.join(known)}")


def _show(as_json: bool, header: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> int:
    from coordinator.operations.json_values import print_json, print_table

    if as_json:
        names = [name.lower().replace(" ", "_") for name in header]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(header, list(rows))
    return 0

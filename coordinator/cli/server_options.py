"""The options of the commands that take the configuration of a server."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from coordinator.cli.command_line import combined

if TYPE_CHECKING:
    from coordinator.config.load import Loaded
    from coordinator.config.settings import AdminConfig


class Sources(TypedDict):
    """The values of `server_options`."""

    config: Path | None
    listen: str | None
    advertise: str | None
    admin: str | None
    data_dir: str | None
    journal: str | None
    workers: int | None
    nodes: int | None
    emulate: str | None
    assignments: tuple[str, ...]
    data: tuple[str, ...]


server_options = combined(
    click.option(
        "--config", type=click.Path(path_type=Path), metavar="FILE", help="A YAML file with `key: value` lines."
    ),
    click.option("--listen", metavar="HOST:PORT", help="The address for clients (port 0: any free port)."),
    click.option(
        "--advertise", metavar="HOST:PORT", help="The address that the server gives to clients, if it is another one."
    ),
    click.option("--admin", metavar="HOST:PORT", help="The address of the admin HTTP server (port 0: any free port)."),
    click.option("--data-dir", metavar="DIR", help="The data folder (default: data)."),
    click.option(
        "--journal",
        metavar="URL",
        help="Share the journal with other workers: postgresql://USER@HOST/DATABASE or kafka://HOST:PORT,HOST:PORT"
        " (default: embedded, in the data folder).",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1, 64),
        metavar="N",
        help="Serve with N processes, for the cores of this machine (default: one process without a supervisor).",
    ),
    click.option(
        "--nodes",
        type=click.IntRange(1, 32),
        metavar="N",
        help="Run as N brokers in one process, for tests of clients (default: one).",
    ),
    click.option(
        "--emulate", metavar="RELEASE", help="Behave as an earlier release of Kafka, such as 3.6 (default: 4.4)."
    ),
    click.option(
        "--set", "assignments", metavar="key=value", multiple=True, help="Change one setting; can be repeated."
    ),
    click.option(
        "--data",
        "data",
        metavar="key=value",
        multiple=True,
        help="Change one setting whose name begins with data, such as bootstrap.servers=HOST:PORT; can be repeated.",
    ),
)


def load_config(sources: Sources) -> "Loaded":
    """The configuration of these sources and the environment. Raises ConfigError."""
    from coordinator.config.load import load_with_sources

    return load_with_sources(sources["config"], _assignments(sources), _flags(sources), os.environ)


def load_admin_config(sources: Sources) -> "AdminConfig":
    """The configuration of the admin HTTP server. Raises ConfigError."""
    from coordinator.config.load import load_admin

    return load_admin(sources["config"], _assignments(sources), _flags(sources), os.environ)


def _assignments(sources: Sources) -> list[str]:
    return [*sources["assignments"], *(f"data.{each}" for each in sources["data"])]


def _flags(sources: Sources) -> dict[str, str]:
    flags = {
        "listen": sources["listen"],
        "advertise": sources["advertise"],
        "admin": sources["admin"],
        "data_dir": sources["data_dir"],
        "journal": sources["journal"],
        "workers": None if sources["workers"] is None else str(sources["workers"]),
        "nodes": None if sources["nodes"] is None else str(sources["nodes"]),
        "emulate": sources["emulate"],
    }
    return {name: text for name, text in flags.items() if text is not None}

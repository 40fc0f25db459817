"""`coordinator config`: shows settings."""

from typing import Unpack

import click

from coordinator.cli.command_line import Group, examples, refused
from coordinator.cli.server_options import Sources, load_config, server_options


@click.group(cls=Group)
def config() -> None:
    """Show settings."""


@config.command("list", epilog=examples("coordinator config list | less"))
def config_list() -> int:
    """List all settings with their defaults and documentation."""
    from coordinator.config.show import list_settings

    print("\n".join(list_settings()))
    return 0


@config.command("defaults", epilog=examples("coordinator config defaults > coordinator.yaml"))
def config_defaults() -> int:
    """Print a configuration file that has all defaults."""
    from coordinator.config.settings import ServerConfig
    from coordinator.config.show import as_yaml

    print(as_yaml(ServerConfig()), end="")
    return 0


@config.command("show", epilog=examples("coordinator config show --config coordinator.yaml --set group.max.size=100"))
@server_options
def config_show(**sources: Unpack[Sources]) -> int:
    """Print the configuration that `serve` uses with the same arguments.

    Settings that differ from the default are marked with the source of their value: a file, a variable, --set or a flag.
    """
    from coordinator.config.load import ConfigError
    from coordinator.config.show import CHANGED, as_yaml

    try:
        loaded = load_config(sources)
    except ConfigError as error:
        return refused(error)
    for line in as_yaml(loaded.config, loaded.sources).splitlines():
        click.secho(line, fg="yellow" if line.startswith(CHANGED) else None)
    return 0

"""The `coordinator` command: it parses the command line, makes one call and returns an exit code.

A command is a function in a module of this package, which is imported when the command is used. Such a module imports at its
top only what the command line itself needs, and the rest when the command runs: start-up must be fast, because a test suite
starts hundreds of servers, and `serve` must not load what `protocol show` needs.

Exit codes: 0 success; 2 the command line or the configuration is wrong, and nothing was created; 1 any other failure, such
as a log in which `log check` finds damage.
"""

import os
import sys
from collections.abc import Sequence

import click

from coordinator.cli.command_line import LazyGroup, Loaded, report

COMMANDS = {
    "serve": Loaded("serve", "Run the server."),
    "watch": Loaded(
        "watch", "Show the groups of a Kafka cluster: the page, causes of rebalances, lag, metrics, events."
    ),
    "ready": Loaded("serve", "Check whether a server is ready, for health checks of containers."),
    "config": Loaded("config", "Show settings."),
    "groups": Loaded("groups", "Show and change groups over the Kafka protocol, on this server or a real Kafka."),
    "topics": Loaded(
        "topics", "Show, create, change and delete topics, and write and read records, on this server or a real Kafka."
    ),
    "acls": Loaded("acls", "Show, add and remove ACLs over the Kafka protocol, on this server or a real Kafka."),
    "users": Loaded(
        "users", "Show, add and remove SCRAM users over the Kafka protocol, on this server or a real Kafka."
    ),
    "log": Loaded("log", "Inspect log folders, repair damaged ones, settle journals, and copy shared ones."),
    "protocol": Loaded("protocol", "Show protocol messages, and the permissions of the APIs."),
    "emulate": Loaded("emulate", "Show the releases of Kafka that a server can be for its clients."),
}
"""The commands of this package in the order of the help text, with the modules that have them."""

INTERRUPTED = 130
"""The exit code of a program that SIGINT ends, as shells report it."""


def _print_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"coordinator {version('kafka-group-coordinator')}")
        context.exit()


coordinator = LazyGroup(
    "coordinator",
    "coordinator.cli",
    COMMANDS,
    help="A Kafka group coordinator that runs without Kafka.",
    context_settings={"max_content_width": 110},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version and exit.",
        )
    ],
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code: int = coordinator.main(words, prog_name="coordinator", standalone_mode=False)
    except click.ClickException as error:
        report(error)
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code

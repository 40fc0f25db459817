"""The options of the commands that read or write the engine of workers."""

import click

from coordinator.cli.command_line import combined

_cluster = click.option(
    "--journal-cluster",
    default="coordinator",
    show_default=True,
    metavar="NAME",
    help="The setting journal.cluster of the workers.",
)
journal_options = combined(
    click.option("--journal", required=True, metavar="URL", help="The engine; -: in COORDINATOR_JOURNAL."), _cluster
)
or_journal_options = combined(
    click.option("--journal", metavar="URL", help="Read an engine instead; -: in COORDINATOR_JOURNAL."), _cluster
)

"""`coordinator log`: inspects log folders, repairs damaged ones, and settles journals."""

from pathlib import Path

import click

from coordinator.cli.command_line import Group, examples, fail, refused_unless_closed

_folder = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")


@click.group(cls=Group)
def log() -> None:
    """Inspect log folders, repair damaged ones, and settle journals."""


@log.command(epilog=examples("coordinator log dump data", "coordinator log dump data/__consumer_offsets-7 --json"))
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["offsets", "transactions", "metadata", "plain"]),
    help="How to decode the records (default: by the name of the folder).",
)
def dump(folder: Path, as_json: bool, kind: str | None) -> int:
    """Print all records as the messages that they contain.

    DIR is a data folder or the folder of one partition, of this server or of Kafka.
    """
    from coordinator.operations import log_dump
    from coordinator.operations.log_folders import NoLogFolder

    try:
        return log_dump.run(folder, as_json=as_json, kind=kind)
    except (NoLogFolder, OSError) as error:
        return refused_unless_closed(error)


@log.command(epilog=examples("coordinator log check data"))
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(folder: Path, as_json: bool) -> int:
    """Verify all checksums, the order of offsets, and the content of all records. Exit code 1: there is a problem.

    DIR is a data folder or the folder of one partition, of this server or of Kafka.
    """
    from coordinator.operations import log_check
    from coordinator.operations.log_folders import NoLogFolder

    try:
        return log_check.run(folder, as_json=as_json)
    except (NoLogFolder, OSError) as error:
        return refused_unless_closed(error)


@log.command(epilog=examples("coordinator log repair data", "coordinator log repair data --execute"))
@click.argument("folder", type=click.Path(path_type=Path), metavar="DATA_DIR")
@click.option("--execute", is_flag=True, help="Repair it, and keep the replaced files in a folder beside it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def repair(folder: Path, execute: bool, as_json: bool) -> int:
    """Show what is damaged in a data folder, what a repair would do, and what is lost. Exit code 1: there is damage.

    DATA_DIR is the data folder of a server that is stopped. Without --execute nothing is changed.
    """
    from coordinator.operations import log_repair
    from coordinator.operations.log_folders import NoLogFolder
    from coordinator.server import CannotStart

    try:
        return log_repair.run(folder, execute=execute, as_json=as_json)
    except CannotStart as error:
        return fail(error)
    except (NoLogFolder, OSError) as error:
        return refused_unless_closed(error)


@log.command(epilog=examples("coordinator log settle data"))
@click.argument("folder", type=click.Path(path_type=Path), metavar="DATA_DIR")
def settle(folder: Path) -> int:
    """Write the journal of a server that was killed into the logs of its data folder, as a start does.

    Then Kafka's tools and versions of this server without a journal find everything. DATA_DIR is the data folder of a server
    that is stopped.
    """
    from coordinator.log.log import DamagedLog
    from coordinator.operations import log_settle
    from coordinator.operations.log_folders import NoLogFolder
    from coordinator.server import CannotStart

    try:
        return log_settle.run(folder)
    except (CannotStart, DamagedLog) as error:
        return fail(error)
    except (NoLogFolder, OSError) as error:
        return refused_unless_closed(error)

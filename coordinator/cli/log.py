"""`coordinator log`: inspects log folders, repairs damaged ones, settles journals, and copies shared ones."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from coordinator.cli.command_line import Group, examples, fail, refused, refused_unless_closed
from coordinator.cli.journal_options import journal_options, or_journal_options

_FOLDER = click.Path(path_type=Path)


@click.group(cls=Group)
def log() -> None:
    """Inspect log folders, repair damaged ones, settle journals, and copy shared ones."""


def _reading(folder: Path | None, journal: str | None, cluster: str, read: Callable[[Path], int]) -> int:
    """Reads a folder, or a copy of an engine's logs, of which `folder` may name one log. Returns the exit code."""
    from coordinator.operations.journal_access import JournalFailed
    from coordinator.operations.log_folders import NoLogFolder
    from coordinator.operations.log_source import LogSource

    if folder is None and journal is None:
        raise click.UsageError("DIR or --journal is required.", click.get_current_context())

    def select(logs: Sequence[str]) -> Sequence[str]:
        return [log for log in logs if folder is None or log == str(folder)]

    try:
        with LogSource(folder, journal, cluster).opened(select) as found:
            return read(found if folder is None or journal is None else found / folder)
    except JournalFailed as error:
        return refused(error)
    except (NoLogFolder, OSError) as error:
        return refused_unless_closed(error)


@log.command(
    epilog=examples(
        "coordinator log dump data",
        "coordinator log dump data/__consumer_offsets-7 --json",
        "coordinator log dump __coordinator_events-7 --journal postgresql://coordinator@db/coordinator",
    )
)
@click.argument("folder", type=_FOLDER, metavar="[DIR|LOG]", required=False)
@or_journal_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["offsets", "transactions", "share-state", "metadata", "plain"]),
    help="How to decode the records (default: by the name of the folder).",
)
def dump(folder: Path | None, journal: str | None, journal_cluster: str, as_json: bool, kind: str | None) -> int:
    """Print all records as the messages that they contain.

    DIR is a data folder or the folder of one partition, of this server or of Kafka. With --journal it may be the name of a log.
    """
    from coordinator.operations import log_dump

    return _reading(folder, journal, journal_cluster, lambda path: log_dump.run(path, as_json=as_json, kind=kind))


@log.command(
    epilog=examples(
        "coordinator log check data", "coordinator log check --journal postgresql://coordinator@db/coordinator"
    )
)
@click.argument("folder", type=_FOLDER, metavar="[DIR|LOG]", required=False)
@or_journal_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(folder: Path | None, journal: str | None, journal_cluster: str, as_json: bool) -> int:
    """Verify all checksums, the order of offsets, and the content of all records. Exit code 1: there is a problem.

    DIR is a data folder or the folder of one partition, of this server or of Kafka. With --journal it may be the name of a log.
    """
    from coordinator.operations import log_check

    return _reading(folder, journal, journal_cluster, lambda path: log_check.run(path, as_json=as_json))


@log.command(epilog=examples("coordinator log export backup --journal postgresql://coordinator@db/coordinator"))
@click.argument("folder", type=_FOLDER, metavar="DIR")
@journal_options
def export(folder: Path, journal: str, journal_cluster: str) -> int:
    """Copy the logs of an engine into a new folder: a backup, or the data folder of a server without workers.

    Workers may run meanwhile. The records of topics are not in the journal, and not in the copy.
    """
    from coordinator.operations import journal_export
    from coordinator.operations.journal_access import JournalFailed

    try:
        print(journal_export.export(journal, journal_cluster, folder).line(str(folder)))
    except JournalFailed as error:
        return fail(error)
    except OSError as error:
        return refused_unless_closed(error)
    return 0


@log.command("import", epilog=examples("coordinator log import data --journal postgresql://coordinator@db/coordinator"))
@click.argument("folder", type=_FOLDER, metavar="DATA_DIR")
@journal_options
@click.option(
    "--journal-replication",
    type=click.Choice(["required", "optional"]),
    default="required",
    show_default=True,
    help="The setting journal.replication of the workers.",
)
def import_(folder: Path, journal: str, journal_cluster: str, journal_replication: str) -> int:
    """Copy the groups, offsets, transactions, events and topics of a data folder into an engine, which must be empty.

    DATA_DIR is the data folder of a server that is stopped, or one that `log export` made. The records of topics stay there.
    """
    from coordinator.cluster.engine.engine import EngineSettings
    from coordinator.operations import journal_import
    from coordinator.operations.journal_access import JournalFailed
    from coordinator.operations.log_folders import NoLogFolder
    from coordinator.server import CannotStart

    settings = EngineSettings(cluster=journal_cluster, replication=journal_replication)
    try:
        for line in journal_import.import_folder(journal, settings, folder).lines(str(folder)):
            print(line)
    except (CannotStart, JournalFailed) as error:
        return fail(error)
    except (NoLogFolder, OSError) as error:
        return refused_unless_closed(error)
    return 0


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

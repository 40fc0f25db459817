"""`coordinator groups what-if`: replays a recorded group under other settings."""

import json
import sys
from pathlib import Path

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Command, examples, fail, refused
from coordinator.cli.groups import duration_ms
from coordinator.cli.journal_options import or_journal_options


@click.command(
    "what-if",
    cls=Command,
    epilog=examples(
        "coordinator groups what-if orders --log data --set session.timeout.ms=30000",
        "coordinator groups what-if orders --log data --set membership=static --json",
        "coordinator groups what-if orders --log data --recorded session.timeout.ms=10000 --set group.protocol=consumer",
    ),
)
@click.argument("group")
@click.option(
    "--log",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The data folder of a server, or of a watcher of a Kafka.",
)
@or_journal_options
@click.option("--set", "other", multiple=True, metavar="NAME=VALUE", help="A setting to try; can be repeated.")
@click.option(
    "--recorded",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that was in force and that the events do not show; can be repeated.",
)
@click.option(
    "--last",
    "last_ms",
    default="1h",
    show_default=True,
    metavar="DURATION",
    callback=lambda _context, _option, value: duration_ms(value),
    help="The time before the last event to replay: a number and s, m, h or d.",
)
@json_option
def what_if(
    group: str,
    folder: Path | None,
    journal: str | None,
    journal_cluster: str,
    other: tuple[str, ...],
    recorded: tuple[str, ...],
    last_ms: int,
    as_json: bool,
) -> int:
    """Replay what a group's consumers did under other settings, and compare the harm.

    The settings are session.timeout.ms, max.poll.interval.ms, group.initial.rebalance.delay.ms, membership (static or dynamic),
    group.protocol (classic or consumer), rebalance.protocol (eager or cooperative), group.consumer.fencing.policy and
    group.streams.fencing.policy.

    The JSON is what `coordinator pipeline report --what-if` shows.
    """
    from coordinator.operations.client import OperationFailed
    from coordinator.operations.group_events import event_log_of, read_folder
    from coordinator.operations.journal_access import JournalFailed
    from coordinator.operations.log_folders import NoLogFolder
    from coordinator.operations.log_source import LogSource
    from coordinator_lab.what_if.answer import answer, as_text, as_values_of
    from coordinator_lab.what_if.recording import Recording
    from coordinator_lab.what_if.settings import WrongSetting

    if (folder is None) == (journal is None):
        raise click.UsageError("Exactly one of --log and --journal is required.", click.get_current_context())
    source, recording = LogSource(folder, journal, journal_cluster), Recording(group)
    try:
        with source.opened(lambda logs: event_log_of(logs, group)) as path:
            read_folder(path, group, recording.batch, lambda problem: print(problem, file=sys.stderr))
        window = recording.window(last_ms)
        if window is None:
            return fail(f"the events in {source.name} have no group {group}")
        found = answer(group, recording.events, window, recorded, other)
    except WrongSetting as error:
        return refused(error)
    except (JournalFailed, NoLogFolder, OperationFailed, OSError) as error:
        return fail(error)
    print(json.dumps(as_values_of(found), indent=2) if as_json else as_text(found))
    return 0

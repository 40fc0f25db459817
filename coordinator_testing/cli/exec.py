"""`coordinator exec`: a throw-away server for any command."""

from pathlib import Path

import click

from coordinator.cli.command_line import Command, examples, fail

NOT_FOUND = 127
"""The exit code for a command that does not exist, as in a shell."""


class Exec(Command):
    """The words of the other command begin at the first one that is no option of this one."""

    allow_interspersed_args = False


@click.command(
    "exec",
    cls=Exec,
    epilog=examples(
        "coordinator exec -- npm test",
        "coordinator exec --set num.partitions=4 -- ./gradlew test",
        "coordinator exec --nodes 3 -- go test ./...",
        "coordinator exec --from /backup/kafka-logs -- pytest",
        "coordinator exec -- sh -c 'kcat -b $BOOTSTRAP -L'",
    ),
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration of the server (default: config/test.yaml, which suits test suites).",
)
@click.option(
    "--nodes", type=click.IntRange(1, 32), metavar="N", help="Be N brokers, as `serve --nodes` (default: one)."
)
@click.option("--emulate", metavar="RELEASE", help="Be an earlier release of Kafka, as `serve --emulate`.")
@click.option("--set", "assignments", metavar="key=value", multiple=True, help="Change one setting; can be repeated.")
@click.option(
    "--from",
    "source",
    metavar="FOLDER|HOST:PORT",
    help="Begin with a copy of the groups, offsets and topics of this data folder or server, as `serve --from` does.",
)
@click.option(
    "--log", "log_path", type=click.Path(path_type=Path), metavar="FILE", help="Append the server's log to this file."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec(  # noqa: A001 - the command's name
    config: Path | None,
    nodes: int | None,
    emulate: str | None,
    assignments: tuple[str, ...],
    source: str | None,
    log_path: Path | None,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND with a throw-away server, and exit with its exit code.

    The server listens on a free port and is ready when COMMAND starts. It ends with COMMAND, and its data with it. COMMAND
    finds its address in the variables BOOTSTRAP, KAFKA_BOOTSTRAP_SERVERS and SPRING_KAFKA_BOOTSTRAP_SERVERS, and the URL of
    its admin HTTP server in ADMIN_URL.
    """
    from coordinator.config.load import ConfigError, load
    from coordinator.config.paths import CONFIGS
    from coordinator_testing import run_command

    config = config or CONFIGS / "test.yaml"
    if nodes is not None:
        assignments = (*assignments, f"nodes={nodes}")
    if emulate is not None:
        assignments = (*assignments, f"emulate={emulate}")
    try:
        load(config, assignments)
    except ConfigError as error:
        return fail(error, 2)
    try:
        return run_command.run(command, config, assignments, log_path, source)
    except run_command.NoSuchCommand as error:
        return fail(error, NOT_FOUND)
    except run_command.CannotRun as error:
        return fail(error)

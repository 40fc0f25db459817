"""`coordinator certify`: puts a consumer program of any language through rare events."""

from pathlib import Path

import click

from coordinator.cli.command_line import Command, examples, fail, refused

NOT_FOUND = 127
"""The exit code for a command that does not exist, as in a shell."""


class Certify(Command):
    """The words of the program begin at the first one that is no option of this command."""

    allow_interspersed_args = False


@click.command(
    "certify",
    cls=Certify,
    epilog=examples(
        "coordinator certify --protocol classic -- python my_consumer.py",
        "coordinator certify --protocol consumer --jobs 4 --output certificate -- java -jar my-service.jar",
        "coordinator certify --protocol classic --list",
    ),
)
@click.option(
    "--protocol",
    type=click.Choice(["classic", "consumer", "streams"]),
    required=True,
    help="The rebalance protocol; the program finds it in GROUP_PROTOCOL.",
)
@click.option("--events", metavar="NAME,...", default="", help="Only these events (default: all of the protocol).")
@click.option("--list", "lists", is_flag=True, help="List the events of the protocol, and run nothing.")
@click.option(
    "--instances", type=click.IntRange(2, 20), default=3, show_default=True, help="How many instances of it to run."
)
@click.option(
    "--jobs", type=click.IntRange(1, 32), default=1, show_default=True, help="How many events to run at the same time."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write certificate.json, junit.xml, index.html and the output of the instances to this folder.",
)
@click.option("--no-output-topic", is_flag=True, help="The program copies no records: judge by the protocol alone.")
@click.option("--strict", is_flag=True, help="Exit code 3 if a promise could be judged in no event.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def certify(
    protocol: str,
    events: str,
    lists: bool,
    instances: int,
    jobs: int,
    output: Path | None,
    no_output_topic: bool,
    strict: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND through a curriculum of rare events, and judge what it did.

    COMMAND is a consumer program of any language. Several instances of it run at a time, in a group of their own for each
    event. Each finds BOOTSTRAP, TOPIC, GROUP, OUTPUT_TOPIC, INSTANCE, GROUP_PROTOCOL, GROUP_INSTANCE_ID and TRANSACTIONAL_ID in
    its environment, and copies each record of TOPIC to OUTPUT_TOPIC before it commits it. SIGTERM ends it in an orderly way.

    Exit code 0: no promise was broken. 1: one was broken, or an event was not reached. 2: the command line is wrong.
    """
    from coordinator.rules.recordings import RECORDINGS_MAX
    from coordinator_testing.certify import command_line
    from coordinator_testing.certify.curriculum import NoSuchEvent, events_of
    from coordinator_testing.control import ControlError
    from coordinator_testing.run_command import NoSuchCommand
    from coordinator_testing.throwaway_server import DidNotStart

    try:
        chosen = events_of(protocol, [name.strip() for name in events.split(",") if name.strip()])  # type: ignore[arg-type]
    except NoSuchEvent as error:
        return refused(error)
    if lists:
        return command_line.show(chosen)
    if not command:
        return refused("which program? for example: coordinator certify --protocol classic -- python my_consumer.py")
    if jobs * instances > RECORDINGS_MAX:
        return refused(f"--jobs {jobs} with --instances {instances}: at most {RECORDINGS_MAX} instances run at a time")
    options = command_line.Options(
        protocol=protocol,  # type: ignore[arg-type]
        instances=instances,
        jobs=jobs,
        output=output,
        uses_output_topic=not no_output_topic,
        strict=strict,
        command=command,
    )
    try:
        return command_line.run(options, chosen)
    except NoSuchCommand as error:
        return fail(error, NOT_FOUND)
    except (ControlError, DidNotStart, OSError) as error:
        return fail(error)

"""`coordinator certify`: puts a consumer program of any language through rare events."""

from pathlib import Path

import click

from coordinator.cli.command_line import Command, examples, fail, refused
from coordinator.protocol.releases import NEWEST

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
        "coordinator certify --protocol classic --emulate 3.6 -- ./my-consumer",
        "coordinator certify --protocol classic --list",
    ),
)
@click.option(
    "--protocol",
    type=click.Choice(["classic", "consumer", "streams", "share"]),
    required=True,
    help="The rebalance protocol; the program finds it in GROUP_PROTOCOL.",
)
@click.option(
    "--events",
    metavar="NAME,...",
    default="",
    help="Only these events; FILE.yaml is one of your own (default: all of the protocol).",
)
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
@click.option(
    "--input",
    "input_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The records of the input topic, again and again: KEY<tab>VALUE or VALUE in each line, or JSON objects (*.jsonl). "
    "Default: numbers.",
)
@click.option(
    "--testimony",
    type=click.Choice(["topic", "lines", "http", "command", "none"]),
    default="topic",
    show_default=True,
    help="How the program shows which records it has processed: copies in OUTPUT_TOPIC, lines on stdout, HTTP calls to "
    "PROCESSED_URL, or what --processed-command prints. none: judge by the protocol alone.",
)
@click.option(
    "--processed-line",
    metavar="REGEX",
    help='How such a line names a record, by the groups topic, partition and offset, or value. Default: "processed TOPIC '
    'PARTITION OFFSET".',
)
@click.option(
    "--processed-command",
    metavar="COMMAND",
    help="A shell command that prints a line for each record that the program's database holds, at the end of each event.",
)
@click.option(
    "--topic-delay",
    "topic_delay_ms",
    type=click.IntRange(0, 60_000),
    default=0,
    show_default=True,
    metavar="MS",
    help="How much later clients see that a topic was made, grown or deleted; a KRaft cluster needs some milliseconds.",
)
@click.option(
    "--emulate",
    "release",
    metavar="RELEASE",
    default=NEWEST,
    help=f"The server is an earlier release of Kafka for the program, such as 3.6 (default: {NEWEST}).",
)
@click.option(
    "--strict", is_flag=True, help="Exit code 3 if a promise could be judged in no event, or if there is a warning."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def certify(
    protocol: str,
    events: str,
    lists: bool,
    instances: int,
    jobs: int,
    output: Path | None,
    input_file: Path | None,
    testimony: str,
    processed_line: str | None,
    processed_command: str | None,
    topic_delay_ms: int,
    release: str,
    strict: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND through a curriculum of rare events, and judge what it did.

    COMMAND is a consumer program of any language. Several instances of it run at a time, in a group of their own for each
    event. Each finds BOOTSTRAP, TOPIC, GROUP, OUTPUT_TOPIC, INSTANCE, GROUP_PROTOCOL, GROUP_INSTANCE_ID and TRANSACTIONAL_ID in
    its environment, and copies each record of TOPIC to OUTPUT_TOPIC before it commits it, or names it as --testimony says.
    SIGTERM ends it in an orderly way.

    Exit code 0: no promise was broken. 1: one was broken, or an event was not reached. 2: the command line is wrong.
    """
    from coordinator.rules.recordings import RECORDINGS_MAX
    from coordinator_testing.certify import command_line
    from coordinator_testing.certify.content import NUMBERED, WrongInput, read_input
    from coordinator_testing.certify.curriculum import NoSuchEvent, events_of
    from coordinator_testing.certify.own_events import WrongEvent
    from coordinator_testing.certify.releases import known, serves
    from coordinator_testing.certify.testimony import LINE, Terms, WrongPattern, pattern_of
    from coordinator_testing.control import ControlError
    from coordinator_testing.run_command import NoSuchCommand
    from coordinator_testing.throwaway_server import DidNotStart

    try:
        chosen = events_of(protocol, [name.strip() for name in events.split(",") if name.strip()])  # type: ignore[arg-type]
    except (NoSuchEvent, WrongEvent) as error:
        return refused(error)
    if release not in known():
        return refused(f"there is no release {release!r} to emulate; there are {', '.join(known())}")
    if not serves(release, protocol):  # type: ignore[arg-type]
        return refused(f"Kafka {release} has no {protocol} groups")
    if lists:
        return command_line.show(chosen)
    if not command:
        return refused("which program? for example: coordinator certify --protocol classic -- python my_consumer.py")
    if jobs * instances > RECORDINGS_MAX:
        return refused(f"--jobs {jobs} with --instances {instances}: at most {RECORDINGS_MAX} instances run at a time")
    if (testimony == "command") != (processed_command is not None):
        return refused("--testimony command and --processed-command need each other")
    try:
        terms = Terms(testimony, pattern_of(processed_line or LINE), processed_command)  # type: ignore[arg-type]
        records = read_input(input_file) if input_file else NUMBERED
    except (WrongPattern, WrongInput) as error:
        return refused(error)
    by_value = testimony in ("topic", "none") or "value" in terms.pattern.groupindex
    if by_value and not all(each.is_distinct for each in records):
        return refused(
            f"{input_file}: values do not tell records apart: put {{partition}} and {{number}} into each value, or choose "
            "a --testimony that names partitions and offsets"
        )
    options = command_line.Options(
        protocol=protocol,  # type: ignore[arg-type]
        instances=instances,
        jobs=jobs,
        output=output,
        testimony=terms,
        records=records,
        topic_delay_ms=topic_delay_ms,
        release=release,
        strict=strict,
        command=command,
    )
    try:
        return command_line.run(options, chosen)
    except NoSuchCommand as error:
        return fail(error, NOT_FOUND)
    except (ControlError, DidNotStart, OSError) as error:
        return fail(error)

"""The `coordinator` command: it parses the arguments, makes one call and returns an exit code.

Each command imports what it needs when it runs, because start-up must be fast: a test suite starts hundreds of servers,
and `serve` must not load what `protocol show` needs.

Exit codes: 0 success; 2 the command line or the configuration is wrong, and nothing was created; 1 any other failure, such
as a log in which `log check` finds damage.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.config.settings import ServerConfig
    from coordinator.protocol.schema import Definition, Structure


READY_WITHIN_S = 3.0
"""How long `ready` waits for a response."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code. argparse itself exits with 2 if the command line is wrong."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser(serves=words[:1] == ["serve"]).parse_args(words)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parser(*, serves: bool = False) -> argparse.ArgumentParser:
    """The parser of all commands, or with `serves` of `serve` only, because all of them take ten milliseconds to set up."""
    top = argparse.ArgumentParser(prog="coordinator", description="A Kafka group coordinator that runs without Kafka.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    serve_parser = commands.add_parser("serve", help="run the server", description="Run the server until SIGTERM.")
    _add_config_arguments(serve_parser)
    serve_parser.set_defaults(command=serve)
    if serves:
        return top

    ready_parser = commands.add_parser(
        "ready",
        help="check whether a server is ready, for health checks of containers",
        description="Request /health/ready from the server that `serve` runs with the same settings. Exit code 0: it is"
        " ready.",
    )
    _add_config_arguments(ready_parser)
    ready_parser.set_defaults(command=ready)

    config_parser = commands.add_parser("config", help="show settings").add_subparsers(required=True, metavar="WHAT")
    listing = config_parser.add_parser("list", help="list all settings with their defaults and documentation")
    listing.set_defaults(command=config_list)
    defaults = config_parser.add_parser("defaults", help="print a configuration file that has all defaults")
    defaults.set_defaults(command=config_defaults)
    show = config_parser.add_parser("show", help="print the configuration that `serve` uses with the same arguments")
    _add_config_arguments(show)
    show.set_defaults(command=config_show)

    protocol_parser = commands.add_parser("protocol", help="show protocol messages")
    what = protocol_parser.add_subparsers(required=True, metavar="WHAT")
    message = what.add_parser(
        "show", help="show the fields of a message in one version, and the code that reads and writes it"
    )
    message.add_argument("message", help="for example JoinGroupRequest, or JoinGroup for request and response")
    message.add_argument("version", type=int, help="the version of the message")
    message.add_argument("--dialect", help="the name of a folder in protocol_schemas/dialects")
    message.set_defaults(command=protocol_show)
    _add_groups_commands(commands)
    _add_log_commands(commands)
    _add_pipeline_commands(commands)
    bench_parser = commands.add_parser(
        "bench",
        help="measure the server CPU per request",
        description="Measure the server CPU per request, and compare it with a uvloop echo server that sends frames of the"
        " same sizes.",
    )
    bench_parser.add_argument("--only", default="", metavar="TEXT", help="measure only rows whose name contains this")
    bench_parser.add_argument(
        "--seconds", type=float, default=5.0, help="seconds of one measurement (default: %(default)s)"
    )
    bench_parser.add_argument(
        "--repetitions", type=int, default=3, help="how often each row is measured (default: %(default)s)"
    )
    bench_parser.add_argument(
        "--durability",
        choices=("fsync", "write"),
        default="write",
        help="durability of the server that this command starts (default: %(default)s)",
    )
    bench_parser.add_argument("--bootstrap", metavar="HOST:PORT", help="measure this server instead of starting one")
    bench_parser.add_argument("--server-pid", type=int, metavar="PID", help="the process id of that server")
    bench_parser.add_argument(
        "--with-ours", action="store_true", help="also measure a server that this command starts, row by row"
    )
    bench_parser.add_argument(
        "--warm-up",
        type=float,
        default=1.0,
        metavar="S",
        help="seconds of load before a measurement; a JVM needs about 10 (default: %(default)s)",
    )
    bench_parser.set_defaults(command=bench)
    simulate_parser = commands.add_parser(
        "simulate",
        help="run the whole server in a simulated world of faults, from a seed",
        description="Run one seed after another. If a seed violates an invariant, print its plan, its trace and its last"
        " events, and exit with code 1.",
    )
    simulate_parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the first seed (default: %(default)s)"
    )
    simulate_parser.add_argument(
        "--seeds", type=int, default=1, metavar="COUNT", help="how many seeds to run (default: %(default)s)"
    )
    simulate_parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="for how many simulated seconds faults occur (default: %(default)s)",
    )
    simulate_parser.add_argument(
        "--plan", metavar="TEXT", help="run one plan, as an earlier run printed it, instead of seeds"
    )
    simulate_parser.add_argument(
        "--shrink", action="store_true", help="reduce a failing plan to a smaller one that still fails"
    )
    simulate_parser.set_defaults(command=simulate)
    return top


def _add_groups_commands(commands: Any) -> None:
    what = commands.add_parser(
        "groups", help="show and change groups over the Kafka protocol, on this server or a real Kafka"
    ).add_subparsers(required=True, metavar="WHAT")

    def add_any(name: str, text: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = what.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + "."
        )
        command.add_argument(
            "--timeout",
            type=float,
            default=10.0,
            metavar="SECONDS",
            help="for how long to wait and retry (default: %(default)s)",
        )
        command.add_argument("--json", action="store_true", help="print JSON instead of tables")
        return command

    def add(name: str, text: str, show: Callable[[Any, argparse.Namespace], int]) -> argparse.ArgumentParser:
        command = add_any(name, text)
        command.add_argument(
            "--bootstrap",
            default="127.0.0.1:9092",
            metavar="HOST:PORT,...",
            help="the bootstrap servers (default: %(default)s)",
        )
        command.set_defaults(command=groups, show=show)
        return command

    listing = add("list", "list all groups with type and state", _groups_list)
    listing.add_argument("--state", action="append", default=[], help="only groups in this state; can be repeated")
    listing.add_argument("--type", action="append", default=[], help="only groups of this type; can be repeated")
    describe = add("describe", "show state, members and offsets of groups", _groups_describe)
    describe.add_argument("group", nargs="+")
    delete = add("delete", "delete groups that have no members, and their offsets", _groups_delete)
    delete.add_argument("group", nargs="+")
    rebalance = add_any(
        "rebalance",
        "make all members of a group rebalance; over admin HTTP, because Kafka's protocol has no such request",
    )
    rebalance.add_argument("group")
    rebalance.add_argument("--reason", required=True, metavar="TEXT", help="why; it is logged with the rebalance")
    rebalance.add_argument(
        "--admin",
        default="127.0.0.1:9644",
        metavar="HOST:PORT",
        help="the admin address of the server (default: %(default)s)",
    )
    rebalance.set_defaults(command=groups_rebalance)
    offsets = add("offsets", "show the committed offsets of a group and its lag", _groups_offsets)
    offsets.add_argument("group")
    reset = add(
        "reset-offsets",
        "change the offsets of a group that has no members; without --execute, only show the plan",
        _groups_reset,
    )
    reset.add_argument("group")
    reset.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:PARTITION,...]",
        help="the partitions to reset; can be repeated",
    )
    reset.add_argument("--all-topics", action="store_true", help="all partitions for which the group has an offset")
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", dest="to", action="store_const", const="earliest", help="to the start of the log")
    to.add_argument("--to-latest", dest="to", action="store_const", const="latest", help="to the end of the log")
    to.add_argument("--to-offset", type=int, metavar="OFFSET", help="to this offset, or the nearest one in the log")
    to.add_argument(
        "--to-datetime",
        metavar="TIME",
        help="to the first record at or after this time in ISO 8601, in UTC if it has no zone",
    )
    to.add_argument(
        "--shift-by", type=int, metavar="DISTANCE", help="this many records forward, or backward if negative"
    )
    reset.add_argument("--execute", action="store_true", help="change the offsets")


def _add_log_commands(commands: Any) -> None:
    what = commands.add_parser("log", help="inspect log folders, and repair damaged ones").add_subparsers(
        required=True, metavar="WHAT"
    )
    folder = "a data folder or the folder of one partition, of this server or of Kafka"
    dump = what.add_parser("dump", help="print all records as the messages that they contain")
    dump.add_argument("folder", type=Path, metavar="DIR", help=folder)
    dump.add_argument("--json", action="store_true", help="print one JSON object per line")
    dump.add_argument(
        "--as", dest="kind", choices=("offsets", "transactions", "metadata", "plain"),
        help="how to decode the records (default: by the name of the folder)",
    )  # fmt: skip
    dump.set_defaults(command=log_dump)
    check = what.add_parser(
        "check",
        help="verify all checksums and records",
        description="Verify all checksums, the order of offsets, and the content of all records. Exit code 1: there is a"
        " problem.",
    )
    check.add_argument("folder", type=Path, metavar="DIR", help=folder)
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.set_defaults(command=log_check)
    settling = what.add_parser(
        "settle",
        help="write the journal of a server that was killed into its logs",
        description="Write the journal of a server that was killed into the logs of its data folder, as a start does. Then"
        " Kafka's tools and older versions of this server find everything.",
    )
    settling.add_argument("folder", type=Path, metavar="DATA_DIR", help="the data folder of a server that is stopped")
    settling.set_defaults(command=log_settle)
    repairing = what.add_parser(
        "repair",
        help="show what can be saved of damaged logs; with --execute, save it",
        description="Show what is damaged in a data folder, what a repair would do, and what is lost. Exit code 1: there is"
        " damage. Without --execute nothing is changed.",
    )
    repairing.add_argument("folder", type=Path, metavar="DATA_DIR", help="the data folder of a server that is stopped")
    repairing.add_argument(
        "--execute", action="store_true", help="repair it, and keep the replaced files in a folder beside it"
    )
    repairing.add_argument("--json", action="store_true", help="print one JSON object")
    repairing.set_defaults(command=log_repair)


def _add_pipeline_commands(commands: Any) -> None:
    from coordinator.pipeline import arguments  # noqa: PLC0415 - see the module's docstring; these need no Spark

    pipeline_parser = commands.add_parser("pipeline", help="analyse logs with Spark: tables, audits, reports")
    arguments.add_jobs(pipeline_parser)
    pipeline_parser.set_defaults(command=pipeline)


def _add_config_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, metavar="FILE", help="a YAML file with `key: value` lines")
    command.add_argument("--listen", metavar="HOST:PORT", help="the address for clients (port 0: any free port)")
    command.add_argument(
        "--advertise", metavar="HOST:PORT", help="the address that the server gives to clients, if it is another one"
    )
    command.add_argument(
        "--admin", metavar="HOST:PORT", help="the address of the admin HTTP server (port 0: any free port)"
    )
    command.add_argument("--data-dir", metavar="DIR", help="the data folder (default: data)")
    command.add_argument(
        "--set",
        metavar="key=value",
        action="append",
        default=[],
        dest="assignments",
        help="change one setting; can be repeated",
    )


def serve(options: argparse.Namespace) -> int:
    """Runs the server until it has drained."""
    # The reported start-up time includes that of the interpreter, which is almost only CPU time.
    began_s = time.monotonic() - time.process_time()
    from coordinator.config.load import ConfigError  # noqa: PLC0415 - see the module's docstring

    try:
        config = _load(options)
    except ConfigError as error:
        return _refused(error)
    from coordinator.world.log_lines import KeyValueFormatter  # noqa: PLC0415 - as above

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    from coordinator.server import process  # noqa: PLC0415 - not before the configuration has been checked

    return process.run(config, began_s)


def ready(options: argparse.Namespace) -> int:
    """Prints the response of /health/ready on one line. Exit code 0: the server is ready."""
    from coordinator.config.load import ConfigError  # noqa: PLC0415 - see the module's docstring
    from coordinator.config.settings import joined  # noqa: PLC0415 - as above

    try:
        admin = _load(options).admin
    except ConfigError as error:
        return _refused(error)
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - as above

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)  # noqa: S104 - the address that it listens on
    connection = HTTPConnection(host, admin.port, timeout=READY_WITHIN_S)
    try:
        connection.request("GET", "/health/ready")
        answer = connection.getresponse()
        text = " ".join(answer.read().decode("utf-8", "replace").split())
    except (OSError, HTTPException) as error:
        print(f"coordinator: {joined(host, admin.port)}: {error}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    print(text)
    return 0 if answer.status == 200 else 1


def bench(options: argparse.Namespace) -> int:
    """Measures, and prints a table."""
    from coordinator.bench import programs, report  # noqa: PLC0415 - see the module's docstring

    target = None
    if options.bootstrap is not None or options.server_pid is not None:
        host, _, port = (options.bootstrap or "").rpartition(":")
        if not host or not port.isdigit() or options.server_pid is None:
            return _refused(ValueError("--bootstrap HOST:PORT and --server-pid PID require each other"))
        target = programs.Target(host, int(port), options.server_pid)
    report.report(
        options.only, options.seconds, options.repetitions, options.durability, target, options.warm_up,
        with_ours=options.with_ours,
    )  # fmt: skip
    return 0


def pipeline(options: argparse.Namespace) -> int:
    """Runs one of the Spark jobs."""
    from coordinator.pipeline import job  # noqa: PLC0415 - see the module's docstring

    return job.run(options)


def groups(options: argparse.Namespace) -> int:
    """Runs one of the group commands. An error is printed on one line."""
    from coordinator.operations.client import Client, OperationFailed  # noqa: PLC0415 - see the module's docstring

    try:
        with Client(options.bootstrap, options.timeout) as client:
            shown: int = options.show(client, options)
            return shown
    except OperationFailed as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return 1


def _groups_list(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's docstring

    return groups_shown.show_list(client, options.state, options.type, as_json=options.json)


def _groups_describe(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's docstring

    return groups_shown.show_description(client, options.group, as_json=options.json)


def _groups_delete(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's docstring

    return groups_shown.show_deletion(client, options.group, as_json=options.json)


def groups_rebalance(options: argparse.Namespace) -> int:
    """Forces a rebalance of a group. An error is printed on one line."""
    from coordinator.operations import force_rebalance  # noqa: PLC0415 - see the module's docstring
    from coordinator.operations.client import OperationFailed  # noqa: PLC0415 - as above

    try:
        return force_rebalance.run(
            options.admin, options.group, options.reason, timeout_s=options.timeout, as_json=options.json
        )
    except OperationFailed as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return 1


def _groups_offsets(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's docstring

    return groups_shown.show_offsets(client, options.group, as_json=options.json)


def _groups_reset(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's docstring

    return groups_shown.show_reset(
        client,
        options.group,
        groups_shown.selection(options.topic, all_topics=options.all_topics),
        groups_shown.target(options.to, options.to_offset, options.to_datetime, options.shift_by),
        execute=options.execute,
        as_json=options.json,
    )


def log_dump(options: argparse.Namespace) -> int:
    """Prints all records of a log folder."""
    from coordinator.operations import log_dump as dumping  # noqa: PLC0415 - see the module's docstring
    from coordinator.operations.log_folders import NoLogFolder  # noqa: PLC0415 - see the module's docstring

    try:
        return dumping.run(options.folder, as_json=options.json, kind=options.kind)
    except (NoLogFolder, OSError) as error:
        return _refused_unless_closed(error)


def log_check(options: argparse.Namespace) -> int:
    """Verifies a log folder."""
    from coordinator.operations import log_check as checking  # noqa: PLC0415 - see the module's docstring
    from coordinator.operations.log_folders import NoLogFolder  # noqa: PLC0415 - see the module's docstring

    try:
        return checking.run(options.folder, as_json=options.json)
    except (NoLogFolder, OSError) as error:
        return _refused_unless_closed(error)


def log_settle(options: argparse.Namespace) -> int:
    """Writes the journal of a data folder into its logs."""
    from coordinator.log.log import DamagedLog  # noqa: PLC0415 - see the module's docstring
    from coordinator.operations import log_settle as settling  # noqa: PLC0415 - as above
    from coordinator.operations.log_folders import NoLogFolder  # noqa: PLC0415 - as above
    from coordinator.server import CannotStart  # noqa: PLC0415 - as above

    try:
        return settling.run(options.folder)
    except (CannotStart, DamagedLog) as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return 1
    except (NoLogFolder, OSError) as error:
        return _refused(error)


def log_repair(options: argparse.Namespace) -> int:
    """Shows or carries out the repair of a data folder."""
    from coordinator.operations import log_repair as repairing  # noqa: PLC0415 - see the module's docstring
    from coordinator.operations.log_folders import NoLogFolder  # noqa: PLC0415 - as above
    from coordinator.server import CannotStart  # noqa: PLC0415 - as above

    try:
        return repairing.run(options.folder, execute=options.execute, as_json=options.json)
    except CannotStart as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return 1
    except (NoLogFolder, OSError) as error:
        return _refused_unless_closed(error)


def simulate(options: argparse.Namespace) -> int:
    """Prints a line per seed, and everything about a seed that fails."""
    from coordinator.faults import plan, shrink, simulator  # noqa: PLC0415 - see the module's docstring

    if options.plan is None:
        plans = [plan.draw(seed, options.seconds) for seed in range(options.seed, options.seed + options.seeds)]
    else:
        try:
            plans = [plan.Plan.parse(options.plan)]
        except ValueError as error:
            return _refused(error)
    failed = 0
    for each in plans:
        if len(plans) == 1:
            print(f"plan: {each}")
        report = simulator.run(each)
        print(report, flush=True)
        if report.broken is None:
            continue
        failed += 1
        if options.shrink:
            report = shrink.shrink(each, simulator.run, lambda smaller: print(f"smaller: {smaller}", flush=True))
        lines = [f"plan: {report.plan}", "last events:", *report.events, "", f"broken: {report.broken}"]
        print("\n".join(["", *lines, ""]))
    return 1 if failed else 0


def config_list(_options: argparse.Namespace) -> int:
    """Prints all settings with their documentation."""
    from coordinator.config.show import list_settings  # noqa: PLC0415 - see the module's docstring

    print("\n".join(list_settings()))
    return 0


def config_defaults(_options: argparse.Namespace) -> int:
    """Prints config/default.yaml."""
    from coordinator.config.settings import ServerConfig  # noqa: PLC0415 - see the module's docstring
    from coordinator.config.show import as_yaml  # noqa: PLC0415 - as above

    print(as_yaml(ServerConfig()), end="")
    return 0


def config_show(options: argparse.Namespace) -> int:
    """Prints the configuration as a file that `serve --config` accepts."""
    from coordinator.config.load import ConfigError  # noqa: PLC0415 - see the module's docstring
    from coordinator.config.show import as_yaml  # noqa: PLC0415 - as above

    try:
        print(as_yaml(_load(options)), end="")
    except ConfigError as error:
        return _refused(error)
    return 0


def protocol_show(options: argparse.Namespace) -> int:
    """Prints the fields of a message on the wire, and the generated code, which tracebacks refer to."""
    from coordinator.protocol.codec import Codec  # noqa: PLC0415 - see the module's docstring
    from coordinator.protocol.schema import SchemaError  # noqa: PLC0415 - see the module's docstring

    try:
        codec = Codec.of(options.dialect)
    except SchemaError as error:
        return _refused(error)
    known = codec.schemas.names
    names = [options.message + suffix for suffix in ("", "Request", "Response") if options.message + suffix in known]
    if not names:
        return _refused(f"there is no message {options.message!r}; try JoinGroup or OffsetCommitValue")
    for name in names:
        versions = codec.versions(name)
        if options.version not in versions:
            return _refused(f"{name} has versions {versions.lowest} to {versions.highest}, not {options.version}")
    for name in names:
        print("\n".join(_fields(codec.definition(name), options.version)))
        print(f"\n{codec.source(name, options.version)}\n")
    return 0


def _fields(definition: "Definition", version: int) -> Iterator[str]:
    """The fields of a message in this version as an indented list, with types and tags."""
    flexible = ", flexible" if version in definition.flexible else ""
    yield f"{definition.name} v{version}{flexible}"

    def of(structure: "Structure", indent: str) -> Iterator[str]:
        for each in structure.fields:
            if version in each.versions:
                kind = f"[]{each.type.name}" if each.type.is_array else each.type.name
                nullable = " or null" if version in each.nullable else ""
                tag = f", tag {each.tag}" if version in each.tagged else ""
                yield f"{indent}{each.name}: {kind}{nullable}{tag}"
                if each.type.is_struct:
                    yield from of(definition.structures[each.type.name], indent + "    ")

    yield from of(definition.root, "    ")


def _load(options: argparse.Namespace) -> "ServerConfig":
    from coordinator.config.load import load  # noqa: PLC0415 - see the module's docstring

    flags = {name: getattr(options, name) for name in ("listen", "advertise", "admin", "data_dir")}
    return load(
        options.config,
        options.assignments,
        {name: text for name, text in flags.items() if text is not None},
        os.environ,
    )


def _refused(error: Exception | str) -> int:
    print(f"coordinator: {error}", file=sys.stderr)
    return 2


def _refused_unless_closed(error: Exception) -> int:
    """Prints the error, unless the reader of the output has closed it, which is not an error."""
    if isinstance(error, BrokenPipeError):
        raise error
    return _refused(error)

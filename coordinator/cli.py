"""The `coordinator` command: arguments in, one call, an exit code out.

Nothing is decided here. Each command imports what it needs when it runs, because start-up time is a promise (a test
suite starts hundreds of servers) and `serve` must not pay for what `protocol show` needs.

Exit codes: 0 done; 2 the command line or the configuration is wrong, nothing was created; 1 everything else, such as a
log that `log check` finds damaged.
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
"""How long `ready` waits for an answer."""


class KeyValueFormatter(logging.Formatter):
    """`time=... level=... logger=... event=...`; messages are key=value text already, only a traceback has lines."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("time=%(asctime)s level=%(level)s logger=%(short_name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.level = record.levelname.lower()
        record.short_name = record.name.removeprefix("coordinator.")
        return super().format(record)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (a wrong command line exits by itself, with 2)."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser(serves=words[:1] == ["serve"]).parse_args(words)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except BrokenPipeError:  # the reader of our output (a pager, `head`) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parser(*, serves: bool = False) -> argparse.ArgumentParser:
    """The whole command line; with `serves` only the command `serve`, since to make all of it takes ten milliseconds."""
    top = argparse.ArgumentParser(prog="coordinator", description="A Kafka group coordinator that runs alone.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    serve_parser = commands.add_parser("serve", help="run the server", description="Runs the server until SIGTERM.")
    _add_config_arguments(serve_parser)
    serve_parser.set_defaults(command=serve)
    if serves:
        return top

    ready_parser = commands.add_parser(
        "ready",
        help="whether the server that these settings make is ready; a container's health check",
        description="Asks /health/ready of the server that `serve` with the same settings runs. Exit code 0: ready.",
    )
    _add_config_arguments(ready_parser)
    ready_parser.set_defaults(command=ready)

    config_parser = commands.add_parser("config", help="look at settings").add_subparsers(required=True, metavar="WHAT")
    listing = config_parser.add_parser("list", help="every setting: name, default, what is allowed, why")
    listing.set_defaults(command=config_list)
    defaults = config_parser.add_parser("defaults", help="a configuration file with every default")
    defaults.set_defaults(command=config_defaults)
    show = config_parser.add_parser("show", help="the configuration that `serve` with the same arguments would use")
    _add_config_arguments(show)
    show.set_defaults(command=config_show)

    protocol_parser = commands.add_parser("protocol", help="look at messages")
    what = protocol_parser.add_subparsers(required=True, metavar="WHAT")
    message = what.add_parser(
        "show", help="a message's fields in one version, and the functions that read and write it"
    )
    message.add_argument("message", help="JoinGroupRequest, or JoinGroup for the request and the response")
    message.add_argument("version", type=int)
    message.add_argument("--dialect", help="a folder of protocol_schemas/dialects")
    message.set_defaults(command=protocol_show)
    _add_groups_commands(commands)
    _add_log_commands(commands)
    _add_pipeline_commands(commands)
    bench_parser = commands.add_parser(
        "bench",
        help="server CPU per request, beside a bare echo",
        description="Measures server CPU per request, with a bare uvloop echo of equal frame sizes in the same run.",
    )
    bench_parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains this")
    bench_parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement")
    bench_parser.add_argument("--repetitions", type=int, default=3, help="measurements of each row")
    bench_parser.add_argument("--durability", choices=("fsync", "write"), default="write", help="of our own server")
    bench_parser.add_argument("--bootstrap", metavar="HOST:PORT", help="measure this server instead of our own")
    bench_parser.add_argument("--server-pid", type=int, metavar="PID", help="its process")
    bench_parser.add_argument("--with-ours", action="store_true", help="measure our own server too, row by row")
    bench_parser.add_argument(
        "--warm-up", type=float, default=1.0, metavar="S", help="before a measurement; a JVM takes 10"
    )
    bench_parser.set_defaults(command=bench)
    simulate_parser = commands.add_parser(
        "simulate",
        help="the whole server in a simulated world of faults, from a seed",
        description="Runs a seed after the other; prints the plan, the trace and the last events of one that breaks a"
        " promise. Exit code 1: one did.",
    )
    simulate_parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed")
    simulate_parser.add_argument("--seeds", type=int, default=1, metavar="COUNT", help="how many, one after the other")
    simulate_parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="how long faults happen in each"
    )
    simulate_parser.add_argument("--plan", metavar="TEXT", help="this one plan, as it was printed, instead of seeds")
    simulate_parser.add_argument("--shrink", action="store_true", help="what fails is made as small as still fails")
    simulate_parser.set_defaults(command=simulate)
    return top


def _add_groups_commands(commands: Any) -> None:
    what = commands.add_parser(
        "groups", help="look at and change groups, over the Kafka protocol, on any server"
    ).add_subparsers(required=True, metavar="WHAT")

    def add(name: str, text: str, show: Callable[[Any, argparse.Namespace], int]) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = what.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + "."
        )
        command.add_argument(
            "--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT,...", help="default: %(default)s"
        )
        command.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS", help="default: %(default)s")
        command.add_argument("--json", action="store_true", help="JSON instead of a table")
        command.set_defaults(command=groups, show=show)
        return command

    listing = add("list", "every group: type, state", _groups_list)
    listing.add_argument("--state", action="append", default=[], help="only groups in this state; may be repeated")
    listing.add_argument("--type", action="append", default=[], help="only groups of this type; may be repeated")
    describe = add("describe", "state, members and offsets of groups", _groups_describe)
    describe.add_argument("group", nargs="+")
    delete = add("delete", "delete groups that have no members, with their offsets", _groups_delete)
    delete.add_argument("group", nargs="+")
    offsets = add("offsets", "what a group has committed, and its lag", _groups_offsets)
    offsets.add_argument("group")
    reset = add("reset-offsets", "move the offsets of a group without members; shows what it would do", _groups_reset)
    reset.add_argument("group")
    reset.add_argument("--topic", action="append", default=[], metavar="TOPIC[:PARTITION,...]", help="may be repeated")
    reset.add_argument("--all-topics", action="store_true", help="every partition with an offset")
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", dest="to", action="store_const", const="earliest")
    to.add_argument("--to-latest", dest="to", action="store_const", const="latest")
    to.add_argument("--to-offset", type=int, metavar="OFFSET")
    to.add_argument("--to-datetime", metavar="TIME", help="ISO 8601; without a zone it is UTC")
    to.add_argument("--shift-by", type=int, metavar="DISTANCE", help="records forward, or back if negative")
    reset.add_argument("--execute", action="store_true", help="do it")


def _add_log_commands(commands: Any) -> None:
    what = commands.add_parser("log", help="look into log folders; nothing is written").add_subparsers(
        required=True, metavar="WHAT"
    )
    folder = "a data folder or the folder of one partition, ours or Kafka's"
    dump = what.add_parser("dump", help="every record, as the message it holds")
    dump.add_argument("folder", type=Path, metavar="DIR", help=folder)
    dump.add_argument("--json", action="store_true", help="one JSON object per line")
    dump.add_argument(
        "--as", dest="kind", choices=("offsets", "transactions", "metadata", "plain"),
        help="how to read the records (default: by the folder's name)",
    )  # fmt: skip
    dump.set_defaults(command=log_dump)
    check = what.add_parser(
        "check",
        help="verify every byte and record",
        description="Verifies checksums, order and the meaning of every record. Exit code 1: something is not good.",
    )
    check.add_argument("folder", type=Path, metavar="DIR", help=folder)
    check.add_argument("--json", action="store_true", help="one JSON object")
    check.set_defaults(command=log_check)


def _add_pipeline_commands(commands: Any) -> None:
    from coordinator.pipeline import arguments  # noqa: PLC0415 - see the module's text; these need no Spark

    pipeline_parser = commands.add_parser("pipeline", help="Spark over the logs: tables, audits, reports")
    arguments.add_jobs(pipeline_parser)
    pipeline_parser.set_defaults(command=pipeline)


def _add_config_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, metavar="FILE", help="settings as YAML, `key: value` lines")
    command.add_argument("--listen", metavar="HOST:PORT", help="where clients connect (port 0: any free port)")
    command.add_argument("--advertise", metavar="HOST:PORT", help="what clients are told to connect to")
    command.add_argument("--admin", metavar="HOST:PORT", help="where admin HTTP listens (port 0: any free port)")
    command.add_argument("--data-dir", metavar="DIR", help="the data folder (default: data)")
    command.add_argument(
        "--set",
        metavar="key=value",
        action="append",
        default=[],
        dest="assignments",
        help="one setting; may be repeated",
    )


def serve(options: argparse.Namespace) -> int:
    """Runs the server; returns when it has drained."""
    # What the interpreter took to get here is part of the start-up, and nearly all of it is CPU time.
    began_s = time.monotonic() - time.process_time()
    from coordinator.config.load import ConfigError  # noqa: PLC0415 - see the module's text

    try:
        config = _load(options)
    except ConfigError as error:
        return _refused(error)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    from coordinator import server  # noqa: PLC0415 - only a configuration that can work creates anything

    return server.run(config, began_s)


def ready(options: argparse.Namespace) -> int:
    """One line, and an exit code for whoever restarts or waits."""
    from coordinator.config.load import ConfigError, joined  # noqa: PLC0415 - see the module's text

    try:
        admin = _load(options).admin
    except ConfigError as error:
        return _refused(error)
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - as above

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)  # noqa: S104 - what it listens on
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
    """Prints the table."""
    from coordinator.bench import report  # noqa: PLC0415 - see the module's text

    target = None
    if options.bootstrap is not None or options.server_pid is not None:
        host, _, port = (options.bootstrap or "").rpartition(":")
        if not host or not port.isdigit() or options.server_pid is None:
            return _refused(ValueError("--bootstrap HOST:PORT and --server-pid PID go together"))
        target = report.Target(host, int(port), options.server_pid)
    report.report(
        options.only, options.seconds, options.repetitions, options.durability, target, options.warm_up,
        with_ours=options.with_ours,
    )  # fmt: skip
    return 0


def pipeline(options: argparse.Namespace) -> int:
    """One of the jobs over the logs."""
    from coordinator.pipeline import job  # noqa: PLC0415 - see the module's text

    return job.run(options)


def groups(options: argparse.Namespace) -> int:
    """One of the commands about groups; whatever goes wrong is one line."""
    from coordinator.operations.client import Client, OperationFailed  # noqa: PLC0415 - see the module's text

    try:
        with Client(options.bootstrap, options.timeout) as client:
            shown: int = options.show(client, options)
            return shown
    except OperationFailed as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return 1


def _groups_list(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's text

    return groups_shown.show_list(client, options.state, options.type, as_json=options.json)


def _groups_describe(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's text

    return groups_shown.show_description(client, options.group, as_json=options.json)


def _groups_delete(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's text

    return groups_shown.show_deletion(client, options.group, as_json=options.json)


def _groups_offsets(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's text

    return groups_shown.show_offsets(client, options.group, as_json=options.json)


def _groups_reset(client: Any, options: argparse.Namespace) -> int:
    from coordinator.operations import groups_shown  # noqa: PLC0415 - see the module's text

    return groups_shown.show_reset(
        client,
        options.group,
        groups_shown.selection(options.topic, all_topics=options.all_topics),
        groups_shown.target(options.to, options.to_offset, options.to_datetime, options.shift_by),
        execute=options.execute,
        as_json=options.json,
    )


def log_dump(options: argparse.Namespace) -> int:
    """Every record of a log folder."""
    from coordinator.operations import log_dump as dumping  # noqa: PLC0415 - see the module's text
    from coordinator.operations.log_folders import NoLogFolder  # noqa: PLC0415 - see the module's text

    try:
        return dumping.run(options.folder, as_json=options.json, kind=options.kind)
    except (NoLogFolder, OSError) as error:
        return _refused_unless_closed(error)


def log_check(options: argparse.Namespace) -> int:
    """Whether a log folder is as it was written."""
    from coordinator.operations import log_check as checking  # noqa: PLC0415 - see the module's text
    from coordinator.operations.log_folders import NoLogFolder  # noqa: PLC0415 - see the module's text

    try:
        return checking.run(options.folder, as_json=options.json)
    except (NoLogFolder, OSError) as error:
        return _refused_unless_closed(error)


def simulate(options: argparse.Namespace) -> int:
    """A line for each seed; all there is to know about one that fails."""
    from coordinator.faults import plan, shrink, simulator  # noqa: PLC0415 - see the module's text

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
        told = [f"plan: {report.plan}", "last events:", *report.events, "", f"broken: {report.broken}"]
        print("\n".join(["", *told, ""]))
    return 1 if failed else 0


def config_list(_options: argparse.Namespace) -> int:
    """A table for people."""
    from coordinator.config.settings import SETTINGS, STRUCTURED  # noqa: PLC0415 - see the module's text

    for setting in SETTINGS.values():
        print(f"{setting.name} = {setting.default}  ({', '.join(filter(None, (setting.parse.allowed, setting.unit)))})")
        print(f"    {setting.reason}")
    for name, allowed in STRUCTURED.items():
        print(f"{name}  ({allowed})")
    return 0


def config_defaults(_options: argparse.Namespace) -> int:
    """config/default.yaml is this output."""
    from coordinator.config.load import as_yaml  # noqa: PLC0415 - see the module's text
    from coordinator.config.settings import ServerConfig  # noqa: PLC0415 - as above

    print(as_yaml(ServerConfig()), end="")
    return 0


def config_show(options: argparse.Namespace) -> int:
    """As a file again, so that it can be kept."""
    from coordinator.config.load import ConfigError, as_yaml  # noqa: PLC0415 - see the module's text

    try:
        print(as_yaml(_load(options)), end="")
    except ConfigError as error:
        return _refused(error)
    return 0


def protocol_show(options: argparse.Namespace) -> int:
    """For whoever wonders what is on the wire, or what the generated code of a traceback is."""
    from coordinator.protocol.codec import Codec  # noqa: PLC0415 - see the module's text
    from coordinator.protocol.schema import SchemaError  # noqa: PLC0415 - see the module's text

    try:
        codec = Codec.of(options.dialect)
    except SchemaError as error:
        return _refused(error)
    known = codec.schemas.names
    names = [options.message + suffix for suffix in ("", "Request", "Response") if options.message + suffix in known]
    if not names:
        return _refused(f"there is no message {options.message!r}; for example JoinGroup or OffsetCommitValue")
    for name in names:
        versions = codec.versions(name)
        if options.version not in versions:
            return _refused(f"{name} has versions {versions.lowest} to {versions.highest}, not {options.version}")
    for name in names:
        print("\n".join(_fields(codec.definition(name), options.version)))
        print(f"\n{codec.source(name, options.version)}\n")
    return 0


def _fields(definition: "Definition", version: int) -> Iterator[str]:
    """A message as an indented list: field, type, tag and default, as they are in this version."""
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
    from coordinator.config.load import load  # noqa: PLC0415 - see the module's text

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
    """A reader of our output that has seen enough is no error of the command."""
    if isinstance(error, BrokenPipeError):
        raise error
    return _refused(error)

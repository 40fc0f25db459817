"""The command line of the jobs. Separate from job.py because `coordinator pipeline --help` must not wait for Spark."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from coordinator.cli.client_options import connection_options
from coordinator.cli.command_line import combined

JOBS = {
    "tables": "write all tables: intervals, epochs, rebalances, verdicts, transactions",
    "audit": "find zombie commits, double owners and epochs out of order; replay the fencing policies",
    "report": "write an HTML page for a group, or one for each group and an index",
    "follow": "follow a growing log: keep an archive of it, and its tables",
    "rehearse": "generate a log of invented groups with planted zombies, to try the other jobs on",
    "prepare": "store Spark's classes in the form Java needs them in, so that jobs on this machine take a quarter less CPU",
}


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
PACKAGES = {DELTA: ("deltalake", ("deltalake",)), ICEBERG: ("'pyiceberg[sql-sqlite]'", ("pyiceberg", "sqlalchemy"))}
"""What to install for a format, and the modules that it needs. Parquet needs nothing else."""

_EXAMPLES = {
    "tables": "coordinator pipeline tables --log data --out tables",
    "audit": "coordinator pipeline audit --log data --out audit",
    "report": "coordinator pipeline report --log data --group orders --out report",
    "follow": "coordinator pipeline follow --bootstrap localhost:9092 --out archive",
    "rehearse": "coordinator pipeline rehearse --out rehearsal",
    "prepare": "coordinator pipeline prepare",
}


def jobs(run: Callable[[SimpleNamespace], int], group: type[click.Group] = click.Group) -> click.Group:
    """The commands of all jobs. Each calls `run` with its options and `job`, its name."""
    command = group.command_class or click.Command
    return group(
        "pipeline", commands={name: _job(name, run, command) for name in JOBS}, help="Analyse logs with Spark."
    )


def _job(name: str, run: Callable[[SimpleNamespace], int], command: type[click.Command]) -> click.Command:
    def call(**options: Any) -> int:
        if name not in {"rehearse", "prepare"}:
            _check_source(options)
        return run(SimpleNamespace(job=name, **options))

    return command(
        name,
        callback=call,
        params=_options(name),
        help=f"{JOBS[name][0].upper()}{JOBS[name][1:]}.",
        epilog=f"\b\nExamples:\n  {_EXAMPLES[name]}",
    )


def _options(name: str) -> list[click.Parameter]:
    if name == "prepare":
        return []
    options = [_option("--out", required=True, metavar="DIR", help="The output folder.")]
    if name == "rehearse":
        return options + _plan()
    options += _source(follow=name == "follow")
    if name != "follow":
        options += _period()
    if name == "report":
        options += [
            _option("--title", metavar="TEXT", help="A title for the pages."),
            _option(
                "--what-if",
                multiple=True,
                metavar="FILE",
                help="An answer of `coordinator groups what-if --json`, to show on the page of its group; repeatable.",
            ),
        ]
    else:
        formats = click.Choice((PARQUET, *PACKAGES))
        options.append(_option("--format", type=formats, default=PARQUET, show_default=True, help="Table format."))
    return options + (_follow() if name == "follow" else [])


def _option(name: str, **attributes: Any) -> click.Parameter:
    return click.Option([name], **attributes)


def _source(*, follow: bool) -> list[click.Parameter]:
    archive = _option("--archive", metavar="DIR", help="An archive that `follow` has written.")
    journal = _option(
        "--journal",
        metavar="URL",
        help="The engine of workers, which is copied, such as postgresql://...; -: in COORDINATOR_JOURNAL.",
    )
    cluster = _option(
        "--journal-cluster",
        default="coordinator",
        show_default=True,
        metavar="NAME",
        help="With --journal: the setting journal.cluster of the workers.",
    )
    return [
        _option("--log", metavar="DIR", help="A data folder or the folder of one shard, of this server or of Kafka."),
        _option("--bootstrap", metavar="HOST:PORT,...", help="A Kafka cluster, to read its __consumer_offsets."),
        *([] if follow else [archive]),
        journal,
        cluster,
        *_connection(),
        _option("--group", multiple=True, metavar="GROUP", help="Only this group; repeatable."),
        _option("--shards", metavar="0,3,7-9", help="Only these shards."),
        _option("--master", metavar="URL", help="The Spark master (default: local[*], or the master of spark-submit)."),
        _option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable."),
    ]


def _connection() -> list[click.Parameter]:
    """How to connect, as the commands do that are clients of a cluster."""

    @combined(*connection_options(note=" (With --bootstrap.)"))
    def options() -> None: ...

    return list(reversed(options.__click_params__))


def _period() -> list[click.Parameter]:
    """`follow` and its tables go on from batch to batch, so they have no such options."""
    text = "milliseconds since 1970, or ISO 8601 (UTC unless it has a zone)"
    return [
        _option("--since", metavar="TIME", help=f"Only what happened then or later: {text}."),
        _option("--until", metavar="TIME", help="Only what happened before, as of then."),
    ]


def _check_source(options: dict[str, Any]) -> None:
    """Raises click.UsageError unless there is exactly one source."""
    sources = [name for name in ("log", "bootstrap", "archive", "journal") if name in options]
    if sum(options[name] is not None for name in sources) != 1:
        names = " or ".join(f"--{name}" for name in sources)
        raise click.UsageError(f"Exactly one of {names} is required.", click.get_current_context())


def _follow() -> list[click.Parameter]:
    return [
        _option(
            "--interval",
            type=float,
            default=5.0,
            show_default=True,
            metavar="SECONDS",
            help="Interval between batches.",
        ),
        _option(
            "--retain",
            type=click.FloatRange(min=0, min_open=True),
            metavar="DAYS",
            help="Delete what was written longer ago from archive and tables. Default: keep everything.",
        ),
        _option("--once", is_flag=True, help="Stop at the current end of the log."),
        _option(
            "--max-bytes",
            default="64m",
            show_default=True,
            metavar="BYTES",
            help="How much of the log to read in one batch.",
        ),
    ]


def _plan() -> list[click.Parameter]:
    def number(name: str, default: float, text: str, metavar: str = "N") -> click.Parameter:
        return _option(name, type=type(default), default=default, show_default=True, metavar=metavar, help=text)

    return [
        number("--decisions", 100_000, "Number of partition commits."),
        number("--groups", 200, "Number of groups."),
        number("--hot", 0.3, "Share of the commits that are in one group.", "SHARE"),
        number("--shards", 4, "Number of shards."),
        number("--seed", 11, "Random seed."),
    ]


def local_folder(out: str) -> Path | None:
    """The folder as a local path; None if it is on another kind of file system, such as s3a://bucket/folder."""
    scheme = _SCHEME.match(out)
    if scheme is None:
        return Path(out)
    if scheme[1].lower() != "file":
        return None
    path = out[scheme.end() - 1 :]
    return Path(path.removeprefix("//") if path.startswith("//") else path)

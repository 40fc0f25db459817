"""The command line of the jobs. Separate from job.py because `coordinator --help` must not wait for Spark."""

import argparse
from pathlib import Path
from typing import Any

JOBS = {
    "tables": "write all tables: intervals, epochs, rebalances, verdicts, transactions",
    "audit": "find zombie commits, double owners and epochs out of order; replay the fencing policies",
    "report": "write an HTML page for a group, or one for each group and an index",
    "follow": "follow a growing log: keep an archive of it, and its tables",
    "rehearse": "generate a log of invented groups with planted zombies, to try the other jobs on",
}


PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)


def add_jobs(parser: Any) -> None:
    """Adds the jobs to a parser, as subcommands."""
    jobs = parser.add_subparsers(required=True, metavar="JOB", dest="job")
    for name, text in JOBS.items():
        job = jobs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        job.add_argument("--out", required=True, metavar="DIR", help="the output folder")
        if name == "rehearse":
            _add_plan(job)
            continue
        _add_source(job, follow=name == "follow")
        if name in {"tables", "audit"}:
            job.add_argument("--format", choices=FORMATS, default=PARQUET, help="table format (default: %(default)s)")
        if name == "report":
            job.add_argument("--title", metavar="TEXT", help="a title for the pages")
        if name == "follow":
            _add_follow(job)


def _add_source(job: argparse.ArgumentParser, *, follow: bool) -> None:
    source = job.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--log", metavar="DIR", help="a data folder or the folder of one shard, of this server or of Kafka"
    )
    source.add_argument("--bootstrap", metavar="HOST:PORT,...", help="a Kafka cluster, to read its __consumer_offsets")
    if not follow:
        source.add_argument("--archive", metavar="DIR", help="an archive that `follow` has written")
    job.add_argument(
        "--kafka",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --bootstrap: an option of Spark's Kafka source, such as kafka.security.protocol=SSL; repeatable",
    )
    job.add_argument("--group", action="append", default=[], metavar="GROUP", help="only this group; repeatable")
    job.add_argument("--shards", metavar="0,3,7-9", help="only these shards")
    job.add_argument("--master", metavar="URL", help="the Spark master (default: local[*], or that of spark-submit)")
    job.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting; repeatable")


def _add_follow(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--interval", type=float, default=5.0, metavar="SECONDS", help="interval between batches (default: %(default)s)"
    )
    job.add_argument("--once", action="store_true", help="stop at the current end of the log")
    job.add_argument(
        "--max-bytes",
        default="64m",
        metavar="BYTES",
        help="how much of the log to read in one batch (default: %(default)s)",
    )


def _add_plan(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--decisions", type=int, default=100_000, metavar="N", help="number of partition commits (default: %(default)s)"
    )
    job.add_argument("--groups", type=int, default=200, metavar="N", help="number of groups (default: %(default)s)")
    job.add_argument(
        "--hot",
        type=float,
        default=0.3,
        metavar="SHARE",
        help="share of the commits that are in one group (default: %(default)s)",
    )
    job.add_argument("--shards", type=int, default=4, metavar="N", help="number of shards (default: %(default)s)")
    job.add_argument("--seed", type=int, default=11, metavar="N", help="random seed (default: %(default)s)")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line of a job that is started on its own, for example by `spark-submit`."""
    parser = argparse.ArgumentParser(
        prog="pipeline", description="Spark jobs over the logs of a Kafka group coordinator."
    )
    add_jobs(parser)
    return parser.parse_args(arguments)


def local_folder(out: str) -> Path | None:
    """The folder as a local path; None if it is on another kind of file system."""
    if "://" in out and not out.startswith("file://"):
        return None
    return Path(out.removeprefix("file://"))

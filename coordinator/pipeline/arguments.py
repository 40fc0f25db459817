"""What the jobs may be told. Apart from job.py, because the command line wants to know it without waiting for Spark."""

import argparse
from pathlib import Path
from typing import Any

JOBS = {
    "tables": "write every table: intervals, epochs, rebalances, verdicts, transactions",
    "audit": "look for zombie commits, double owners, epochs out of order; replay the fencing policies",
    "report": "one HTML file for a group, or one for each and an index",
    "follow": "keep an archive and the tables of a log that is being written",
    "rehearse": "write a log of groups that never were, with planted zombies: something to try the others on",
}


PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)


def add_jobs(parser: Any) -> None:
    """The jobs as subcommands of a parser."""
    what = parser.add_subparsers(required=True, metavar="JOB", dest="job")
    for name, text in JOBS.items():
        job = what.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        job.add_argument("--out", required=True, metavar="DIR", help="where to write")
        if name == "rehearse":
            _add_plan(job)
            continue
        _add_source(job, follow=name == "follow")
        if name in {"tables", "audit"}:
            job.add_argument("--format", choices=FORMATS, default=PARQUET, help="default: %(default)s")
        if name == "report":
            job.add_argument("--title", metavar="TEXT", help="what the pages are about")
        if name == "follow":
            _add_follow(job)


def _add_source(job: argparse.ArgumentParser, *, follow: bool) -> None:
    source = job.add_mutually_exclusive_group(required=True)
    source.add_argument("--log", metavar="DIR", help="a data folder or the folder of one shard, ours or Kafka's")
    source.add_argument("--bootstrap", metavar="HOST:PORT,...", help="a Kafka cluster: its __consumer_offsets")
    if not follow:
        source.add_argument("--archive", metavar="DIR", help="what `follow` has kept")
    job.add_argument(
        "--kafka",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --bootstrap: an option of Spark's Kafka source, kafka.security.protocol=SSL say; may be repeated",
    )
    job.add_argument("--group", action="append", default=[], metavar="GROUP", help="only this group; may be repeated")
    job.add_argument("--shards", metavar="0,3,7-9", help="only these shards")
    job.add_argument("--master", metavar="URL", help="where Spark runs (default: local[*], or what spark-submit says)")
    job.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's; may be repeated"
    )


def _add_follow(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--interval", type=float, default=5.0, metavar="SECONDS", help="between batches (default: %(default)s)"
    )
    job.add_argument("--once", action="store_true", help="up to what is there now, then end")
    job.add_argument(
        "--max-bytes", default="64m", metavar="BYTES", help="of the log in one batch (default: %(default)s)"
    )


def _add_plan(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--decisions", type=int, default=100_000, metavar="N", help="commits of a partition; default: %(default)s"
    )
    job.add_argument("--groups", type=int, default=200, metavar="N", help="default: %(default)s")
    job.add_argument(
        "--hot", type=float, default=0.3, metavar="PART", help="of the commits in one group; default: %(default)s"
    )
    job.add_argument("--shards", type=int, default=4, metavar="N", help="default: %(default)s")
    job.add_argument("--seed", type=int, default=11, metavar="N", help="default: %(default)s")


def parse(arguments: list[str]) -> argparse.Namespace:
    """For a job that is started by itself, by `spark-submit` say."""
    parser = argparse.ArgumentParser(prog="pipeline", description="Spark over the logs of a Kafka group coordinator.")
    add_jobs(parser)
    return parser.parse_args(arguments)


def local_folder(out: str) -> Path | None:
    """The folder, unless it is on another kind of file system."""
    if "://" in out and not out.startswith("file://"):
        return None
    return Path(out.removeprefix("file://"))

"""Runs the jobs: arguments in, exit code out. This is also the script to give to `spark-submit`:

    spark-submit [SPARK OPTIONS] .../pyspark_coordinator_log/jobs/job.py audit --log DIR --out DIR

Exit codes: 0 success; 1 the audit found a broken invariant, or a job failed; 2 the command line, the source or the output
folder is invalid, and nothing was written.
"""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from pyspark_coordinator_log.jobs import arguments
from pyspark_coordinator_log.jobs.synthetic_log import Plan, write_synthetic_log

DONE, FAILED, REFUSED = 0, 1, 2
INTERRUPTED = 130
"""The exit code of a program that SIGINT ends, as shells report it."""


MIRROR = "journal"
"""The folder in that of `follow` which grows with a cluster or an engine."""
SMALL_BYTES = 32 << 20
"""The size below which a log is too short for Spark to compile its plans."""


class CannotRun(Exception):
    """The job cannot start. Nothing was written; the message says why."""


def run(options: SimpleNamespace) -> int:
    """Runs a job and returns its exit code."""
    try:
        if options.job == "rehearse":
            return _rehearse(options)
        if options.job == "prepare":
            return _prepare()
        if options.bootstrap is not None or options.journal is not None:
            return _run_on_copy(options)
        return _run(options)
    except CannotRun as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return REFUSED


def _run_on_copy(options: SimpleNamespace) -> int:
    """Runs a job on a copy of the logs of a cluster or an engine, which grows with them if the job follows."""
    from coordinator.cli.client_options import security_of_connection  # noqa: PLC0415 - other sources need no network
    from coordinator.operations.cluster_mirror import copied_cluster, mirrored_cluster  # noqa: PLC0415 - as above
    from coordinator.operations.journal_access import JournalFailed  # noqa: PLC0415 - as above
    from coordinator.operations.journal_mirror import mirrored  # noqa: PLC0415 - as above
    from coordinator.operations.log_source import LogSource  # noqa: PLC0415 - as above
    from coordinator.server import CannotStart  # noqa: PLC0415 - as above

    _check_out(options.out)
    security = security_of_connection(vars(options))  # type: ignore[arg-type]
    try:
        if options.job != "follow":
            copy = (
                LogSource(None, options.journal, options.journal_cluster).opened()
                if options.bootstrap is None
                else copied_cluster(options.bootstrap, options.timeout, security)
            )
            with copy as folder:
                options.log = str(folder)
                return _run(options)
        out = _needs_local(options, options.job)
        interval_s = None if options.once else options.interval
        following = (
            mirrored(options.journal, options.journal_cluster, out / MIRROR, interval_s)
            if options.bootstrap is None
            else mirrored_cluster(options.bootstrap, options.timeout, security, out / MIRROR, interval_s)
        )
        with following as check:
            options.log = str(out / MIRROR)
            return _run(options, check)
    except (CannotStart, JournalFailed) as error:
        raise CannotRun(str(error)) from error


def _run(options: SimpleNamespace, check: Callable[[], None] = lambda: None) -> int:
    """Runs a job on a source that Spark can read. `check` raises JournalFailed if a log that is followed grows no more."""
    _check_out(options.out)
    if options.job in {"follow", "report"}:
        _needs_local(options, options.job)
    _check_format(options)
    with _needs_spark():
        from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - Spark is imported only when a job needs it

        from pyspark_coordinator_log.folders import NoLog  # noqa: PLC0415 - as above
        from pyspark_coordinator_log.jobs import java, sources  # noqa: PLC0415 - as above
        from pyspark_coordinator_log.jobs.session import is_connect, session  # noqa: PLC0415 - as above
    try:
        if options.log is not None:
            sources.check_log(options.log)
        elif getattr(options, "archive", None) is not None:
            sources.check_archive(options.archive)
        if options.job == "follow":
            _check_continued(options)
        read_options = _read_options(options)
        what_ifs = [_what_if(path) for path in getattr(options, "what_if", ())]
    except (NoLog, ValueError) as error:
        raise CannotRun(str(error)) from error
    if not is_connect(options.master):
        _check_java()
    with _steps() as step:
        small = options.log is not None and options.job != "follow" and sources.log_bytes(options.log) < SMALL_BYTES
        settings = dict(_pairs(options.conf, "--conf"))
        if options.job == "follow":
            # Spark would log 200 lines about each failure of a query, which `follow` reports in one.
            settings.setdefault("spark.log.level", "FATAL")
        try:
            spark = session(options.master, settings, quick=options.job != "tables", small=small)
        except PySparkRuntimeError as error:
            raise CannotRun(f"Spark could not start {java.program()}: {error}") from error
        step("Spark has started")
        if options.job == "follow":
            from coordinator.operations.journal_access import JournalFailed  # noqa: PLC0415 - as above
            from pyspark_coordinator_log.jobs import follow  # noqa: PLC0415 - as above

            try:
                follow.follow(spark, options, read_options, step, check)
            except (follow.FollowFailed, JournalFailed) as error:
                print(f"coordinator: {error}", file=sys.stderr)
                return FAILED
            return DONE
        derived = _derived(spark, options, read_options)
        for group in (*options.group, *(each["group"] for each in what_ifs)):
            if not derived.source.has_group(group):
                raise CannotRun(f"there is no group {group} in {derived.source.name}")
        if options.job == "report":
            return _report(options, derived, what_ifs, step)
        return _BATCH[options.job](options, derived, spark, step)


@contextmanager
def _needs_spark() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise CannotRun(f"{missing} is not installed; run in a checkout: pip install '.[pipeline]'") from error


def _check_java() -> None:
    """Raises CannotRun if this process has to start Java and cannot."""
    from pyspark_coordinator_log.jobs import java  # noqa: PLC0415 - see _run
    from pyspark_coordinator_log.jobs.session import is_submitted  # noqa: PLC0415 - see _run

    wrong = None if is_submitted() else java.problem()
    if wrong is not None:
        raise CannotRun(wrong)


def _prepare() -> int:
    with _needs_spark():
        import pyarrow  # noqa: F401, ICN001, PLC0415 - see _run
        import pyspark  # noqa: F401, PLC0415 - see _run

    from pyspark_coordinator_log.jobs import java  # noqa: PLC0415 - see _run

    _check_java()
    try:
        made = java.prepare()
    except java.NotPrepared as error:
        raise CannotRun(str(error)) from error
    print(f"{made}: {made.stat().st_size / 1e6:.0f} MB; jobs on this machine use it from now on")
    return DONE


def _derived(spark: Any, options: SimpleNamespace, read_options: dict[str, str]) -> Any:
    from pyspark_coordinator_log.jobs import sources  # noqa: PLC0415 - see _run
    from pyspark_coordinator_log.jobs.tables import Derived  # noqa: PLC0415 - see _run
    from pyspark_coordinator_log.options import parse  # noqa: PLC0415 - see _run

    if options.log is not None:
        name = "the engine" if options.journal is not None else options.bootstrap or options.log
        found = sources.from_log(spark, options.log, read_options, name)
    else:
        found = sources.from_archive(spark, options.archive)
    period = parse({**read_options, "path": "."})
    return Derived(source=found.for_groups(options.group).for_period(period.since_ms, period.until_ms))


def _tables(options: SimpleNamespace, derived: Any, spark: Any, step: Any) -> int:
    from pyspark_coordinator_log.jobs import tables  # noqa: PLC0415 - see _run

    store = tables.Store(spark, options.out, options.format)
    for name, frame in tables.write_tables(derived, store):
        step(f"{name}: " + ("not available from this source" if frame is None else "written"))
    store.write_contract()
    return DONE


def _audit(options: SimpleNamespace, derived: Any, spark: Any, step: Any) -> int:
    from pyspark_coordinator_log.jobs import audit, tables  # noqa: PLC0415 - see _run

    found: dict[str, Any] = {}
    store = tables.Store(spark, options.out, options.format)
    for name, summary in audit.audit(derived, store):
        step(f"{name}: done")
        found = summary or found
    store.write_contract()
    folder = arguments.local_folder(options.out)
    if folder is not None:
        audit.write_summary(folder, found)
    for line in audit.lines(found):
        print(line)
    return DONE if audit.is_clean(found) else FAILED


def _report(options: SimpleNamespace, derived: Any, what_ifs: list[dict[str, Any]], step: Any) -> int:
    from pyspark_coordinator_log.jobs import report  # noqa: PLC0415 - see _run

    folder = _needs_local(options, options.job)
    for page in report.write(derived, folder, options.title, step, what_ifs):
        print(page)
    return DONE


_BATCH = {"tables": _tables, "audit": _audit}
_WHAT_IF = {"group", "settings", "recorded", "replayed_unchanged", "replayed_changed", "proof", "assumptions"}


def _what_if(path: str) -> dict[str, Any]:
    """An answer of `coordinator groups what-if --json`. Raises CannotRun."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CannotRun(f"--what-if {path}: {error}") from error
    if not isinstance(found, dict) or not found.keys() >= _WHAT_IF:
        raise CannotRun(f"--what-if {path}: not an answer of coordinator groups what-if --json")
    return found


def _rehearse(options: SimpleNamespace) -> int:
    folder = arguments.local_folder(options.out)
    if folder is None or (folder.exists() and any(folder.iterdir())):
        raise CannotRun(f"--out {options.out}: not an empty local folder")
    if min(options.decisions, options.groups, options.shards) < 1 or not 0 <= options.hot <= 1:
        raise CannotRun("--decisions, --groups and --shards must be at least 1, --hot between 0 and 1")
    plan = Plan(
        seed=options.seed, groups=options.groups, decisions=options.decisions, hot=options.hot, shards=options.shards
    )
    truth = write_synthetic_log(folder, plan)
    print(
        f"{truth['decisions']:,} decisions in {truth['requests']:,} commits, {truth['zombies']:,} of them from zombies, "
        f"{truth['planted_partitions']:,} of those accepted"
    )
    return DONE


def _check_out(out: str) -> None:
    folder = arguments.local_folder(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise CannotRun(f"--out {out}: not a folder")


def _needs_local(options: SimpleNamespace, what: str) -> Path:
    """The output folder of a job or format that renames and replaces what it has written, which object stores cannot."""
    folder = arguments.local_folder(options.out)
    if folder is None:
        raise CannotRun(f"--out {options.out}: {what} needs a local folder")
    return folder


def _check_format(options: SimpleNamespace) -> None:
    """Raises CannotRun if a table format needs a package that is not installed, or a local folder."""
    table_format = getattr(options, "format", None)
    if table_format not in arguments.PACKAGES:
        return
    package, modules = arguments.PACKAGES[table_format]
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise CannotRun(f"--format {table_format}: {missing[0]} is not installed; run: pip install {package}")
    _needs_local(options, f"--format {table_format}")


def _check_continued(options: SimpleNamespace) -> None:
    """Raises CannotRun if `follow` has begun its tables in another format."""
    from pyspark_coordinator_log.jobs import tables  # noqa: PLC0415 - see _run

    begun = tables.format_of(_needs_local(options, options.job) / "tables")
    if begun not in {None, options.format}:
        raise CannotRun(
            f"--out {options.out}: its tables are {begun}, so follow with --format {begun} or into another folder"
        )


def _read_options(options: SimpleNamespace) -> dict[str, str]:
    """The options for the reader of a log folder, validated."""
    from pyspark_coordinator_log.options import parse  # noqa: PLC0415 - see _run

    names = ("shards", "since", "until")
    given = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    parse({**given, "path": options.log or "."})
    return given


def _pairs(texts: Sequence[str], flag: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise CannotRun(f"{flag} {text}: must have the form KEY=VALUE")
        yield name, value


@contextmanager
def _steps() -> Iterator[Any]:
    """Reports each step on stderr with its wall time and, where possible, the CPU time of all processes.

    CPU time is unknown under `spark-submit`, where the JVM is the parent of this process and not its child.
    """
    from pyspark_coordinator_log.measure import cpu_seconds  # noqa: PLC0415 - see _run

    measured = Path("/proc/self/stat").exists() and "PYSPARK_GATEWAY_PORT" not in os.environ
    began = last = time.monotonic()
    cpu = 0.0

    def step(text: str) -> None:
        nonlocal last, cpu
        now, spent = time.monotonic(), cpu_seconds() if measured else 0.0
        took = f"{now - last:.1f} s" + (f", {spent - cpu:.1f} CPU-s" if measured else "")
        print(f"[{now - began:7.1f} s] {text} ({took})", file=sys.stderr, flush=True)
        last, cpu = now, spent

    yield step


def main() -> int:
    """Entry point for `spark-submit`."""
    jobs = arguments.jobs(run)
    try:
        code: int = jobs.main(sys.argv[1:], prog_name="pipeline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    return code


if __name__ == "__main__":
    if str(Path(__file__).resolve().parent) == sys.path[0]:
        sys.path.pop(0)  # This folder: its modules could shadow those of the standard library.
    sys.exit(main())

"""The Java that Spark runs on: whether there is one, and an archive of Spark's classes, with which it starts in less time.

Most of the work of a short job is loading Spark's classes. Java can keep them in a file in the form it needs them in (AppCDS).
`coordinator pipeline prepare` makes that file, by running two jobs on a generated log, and later jobs use it. Java itself
checks that the file belongs to the same Java and the same jars, and ignores it otherwise; a job never needs it.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from coordinator.world.code_cache import FOLDER_VARIABLE, cache_folder
from pyspark_coordinator_log.jobs.synthetic_log import Plan, write_synthetic_log

OLDEST = 17
_TRAINING = Plan(decisions=5_000, groups=50)
_QUIET = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
"""A file that does not fit is no reason for a warning: the job runs as if there were none."""
_TRAIN = """
import sys
from pyspark_coordinator_log.jobs import arguments, job
log, out, *settings = sys.argv[1:]
for name, compiled in (("audit", "true"), ("report", "false")):
    conf = [f"--conf={each}" for each in (*settings, f"spark.sql.codegen.wholeStage={compiled}")]
    arguments.jobs(job.run).main([name, "--log", log, "--out", f"{out}/{name}", *conf], standalone_mode=False)
"""


class NotPrepared(Exception):
    """There is no new archive of classes; the message says why."""


def problem() -> str | None:
    """Says what is missing if Spark could not start Java here; None if it could."""
    java = program()
    if java is None:
        wrong = "JAVA_HOME has no bin/java" if os.environ.get("JAVA_HOME") else "Java is not installed"
    elif (version := _version(java)) is not None and version < OLDEST:
        wrong = f"{java} is Java {version}"
    else:
        return None
    return (
        f"{wrong}; Spark needs Java {OLDEST} or newer: install one (apt install openjdk-17-jre-headless) or set JAVA_HOME. "
        "`coordinator groups why` needs none"
    )


def archive() -> Path | None:
    """The archive for this Java and this Spark; None if there is none that this user may trust.

    Its size is part of its name: Java ignores a file that does not suit it, but crashes on one that is cut short.
    """
    stem = _stem()
    if stem is None or not _is_plain(stem) or not _is_ours(stem.parent):
        return None
    found = sorted(stem.parent.glob(f"{stem.name}-*.jsa"))
    return next((each for each in found if _is_ours(each) and each == _named(stem, each)), None)


def archive_options() -> str:
    """The options with which Java uses the archive; empty if there is none."""
    found = archive()
    return "" if found is None else f"-XX:SharedArchiveFile={found} {_QUIET}"


def _stem() -> Path | None:
    """The path of the archive up to its size; None without Java or a cache folder."""
    java, folder = program(), cache_folder(os.environ)
    if java is None or folder is None:
        return None
    import pyspark  # noqa: PLC0415 - `coordinator pipeline --help` must not wait for it

    parts = (str(java), _release(java), pyspark.__version__, str(Path(pyspark.__file__).parent))
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return folder / f"spark-{pyspark.__version__}-{key}"


def _named(stem: Path, file: Path) -> Path:
    """The name of an archive with this content."""
    return stem.with_name(f"{stem.name}-{file.stat().st_size}.jsa")


def prepare() -> Path:
    """Makes the archive, replacing the previous one, and returns its path. Takes about half a minute. Raises NotPrepared."""
    stem = _stem()
    other = f"set {FOLDER_VARIABLE} to another folder"
    if stem is None:
        raise NotPrepared(f"there is no cache folder; {other}")
    cache = stem.parent
    if not _is_plain(stem):
        raise NotPrepared(f"{cache}: Spark passes no path with spaces or quotes to Java; {other}")
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(cache):
            raise NotPrepared(f"{cache}: other users may write there; {other}")
        with tempfile.TemporaryDirectory(dir=cache, prefix=".new-") as folder:
            new = Path(folder, "classes.jsa")
            output = _train(Path(folder), new)
            if not new.is_file():
                lines = output.strip().splitlines() or ["no output"]
                raise NotPrepared(f"Java wrote no archive of classes: {lines[-1]}")
            made = new.replace(_named(stem, new))
        for previous in cache.glob(f"{stem.name}-*.jsa"):
            if previous != made:
                previous.unlink()
    except OSError as error:
        raise NotPrepared(f"{cache}: {error.strerror or error}; {other}") from error
    return made


def _train(folder: Path, archive: Path) -> str:
    """Runs jobs in a process whose Java writes the archive when it ends; returns what they printed."""
    log = folder / "log"
    write_synthetic_log(log, _TRAINING)
    settings = {
        "spark.driver.defaultJavaOptions": f"-XX:ArchiveClassesAtExit={archive} {_QUIET}",
        # Java refuses an archive of unverified classes where it verifies them, so these are verified.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.codegen.factoryMode": "FALLBACK",
    }
    given = [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-c", _TRAIN, str(log), str(folder / "out"), *given]
    # Java ends after the process that started it; the pipe is closed when both have.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # noqa: S603
    return done.stdout.decode(errors="replace")


def program() -> Path | None:
    """The Java that `bin/spark-class` would start."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home, "bin", "java")) if home else shutil.which("java")
    return None if found is None else Path(found).resolve()


def _release(java: Path) -> str:
    """What an installation of Java says about itself; empty if it says nothing."""
    try:
        return java.parents[1].joinpath("release").read_text(errors="replace")
    except OSError:
        return ""


def _version(java: Path) -> int | None:
    """The feature release: 17 of 17.0.15. Java 8 calls itself 1.8."""
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', _release(java), re.MULTILINE)
    return None if found is None else int(found[1])


def _is_plain(path: Path) -> bool:
    return re.search(r"[\s'\"]", str(path)) is None


def _is_ours(path: Path) -> bool:
    """Whether only this user or root can have written there: the classes in an archive are executed."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid in {0, os.getuid()} and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

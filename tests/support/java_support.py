"""Kafka's own Java code for tests: resolves jars with Maven, compiles small programs against them, and runs Java.

Every function skips the test with a reason where Java or Maven is missing or the jars cannot be fetched. Resolved jars
and compiled programs are kept in the user's cache folder, so this work is done once for each set of artifacts.

The suite starts more than a hundred Java processes, and half of the cost of each is loading and verifying the same
classes. Therefore the first process of a class path that ends normally leaves a class data sharing archive in that
folder.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

TEST_MARKERS = ("java",)

KAFKA_VERSION = "4.4.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-group-coordinator-tests"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId>
  <artifactId>classpath</artifactId>
  <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""


def kafka_classpath(artifacts: Sequence[str], exclude: Sequence[str] = ()) -> str:
    """The class path of artifacts ("group:artifact:version") and their dependencies.

    `exclude`: artifacts ("group:artifact") to leave out wherever they are required.
    """
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    pom = _POM.format(dependencies="".join(_dependency(artifact, exclude) for artifact in artifacts))
    folder = CACHE / hashlib.sha256(pom.encode()).hexdigest()[:16]
    resolved = folder / "classpath.txt"
    if not _is_complete(resolved):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(pom)
        # A name unique to this process: two test runs may resolve at once.
        output = folder / f"classpath-{os.getpid()}.txt"
        command = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280)
        if done.returncode:
            pytest.skip(f"Maven could not resolve {', '.join(artifacts)}: {done.stdout[-500:]}")
        output.replace(resolved)
    return resolved.read_text().strip()


def compile_java(source: Path, classpath: str) -> str:
    """Compiles one file; returns the class path that runs it, with its jar last."""
    digest = hashlib.sha256(f"{source.read_text()}\n{classpath}".encode()).hexdigest()[:16]
    jar = CACHE / f"{source.stem}-{digest}.jar"
    if not jar.exists():
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made.jar"
            for command in (
                ["javac", "-nowarn", "-proc:none", "-cp", classpath, "-d", f"{folder}/classes", str(source)],
                ["jar", "--create", "--file", str(made), "-C", f"{folder}/classes", "."],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
                assert done.returncode == 0, done.stderr
            # A name unique to this process: two test runs may compile at once.
            shutil.copy(made, moving := jar.with_suffix(f".{os.getpid()}"))
            moving.replace(jar)
    return os.pathsep.join((classpath, str(jar)))


def java(
    classpath: str,
    main: str,
    *arguments: str,
    heap_mib: int = 256,
    options: Sequence[str] = (),
    archive: Path | None = None,
) -> list[str]:
    """The command that runs a class. `archive`: the file to write its class archive to, from `archive_to_make`."""
    command = ["java", f"-Xmx{heap_mib}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", *options]
    if archive is not None:
        command += [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
    else:
        # The archive of this class path, or of its prefix without the last jar. Java ignores one that no longer matches.
        kept = (_archive_of(path) for path in (classpath, classpath.rpartition(os.pathsep)[0]))
        command += [f"-XX:SharedArchiveFile={path}" for path in kept if path.exists()][:1]
        command += ["-Xlog:disable"]
    return [*command, "-cp", classpath, main, *arguments]


@contextlib.contextmanager
def archive_to_make(classpath: str) -> Iterator[Path | None]:
    """Yields the file to which the first process of a class path must write its classes before the block ends, or None
    if the archive exists.
    """
    kept = _archive_of(classpath)
    if kept.exists():
        yield None
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    # A name unique to this process: two test runs may create it at once.
    making = kept.with_suffix(f".{os.getpid()}")
    yield making
    if making.exists():
        making.replace(kept)


def run_java(classpath: str, main: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a class until it ends."""
    with archive_to_make(classpath) as archive:
        command = java(classpath, main, *arguments, archive=archive)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)


def _archive_of(classpath: str) -> Path:
    key = "\n".join([str(Path(shutil.which("java") or "java").resolve()), classpath])
    return CACHE / f"classes-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def _dependency(artifact: str, exclude: Sequence[str]) -> str:
    group, name, version = artifact.split(":")
    exclusions = "".join(
        "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>".format(*excluded.split(":"))
        for excluded in exclude
    )
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"<exclusions>{exclusions}</exclusions></dependency>"
    )


def _is_complete(resolved: Path) -> bool:
    return resolved.is_file() and all(Path(jar).is_file() for jar in resolved.read_text().strip().split(os.pathsep))

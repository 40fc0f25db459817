"""Kafka's own Java code for tests: jars by Maven, small programs compiled against them, and how Java is run.

Everything skips the test, saying why, where Java or Maven is missing or the jars cannot be had. What Maven resolved and what
was compiled is kept in the user's cache folder, so that it is done once for each set of artifacts.

The suite starts more than a hundred Java processes, and half of what each costs is reading and checking the same classes. So
the first of a class path that ends in order leaves them as it has them in memory (class data sharing), also in that folder.
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
    """The class path of artifacts ("group:artifact:version") and all that they need.

    `exclude`: artifacts ("group:artifact") to leave out wherever they are asked for.
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
        # A name of this process's own: two test runs may resolve at once.
        output = folder / f"classpath-{os.getpid()}.txt"
        command = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280)
        if done.returncode:
            pytest.skip(f"Maven could not resolve {', '.join(artifacts)}: {done.stdout[-500:]}")
        output.replace(resolved)
    return resolved.read_text().strip()


def compile_java(source: Path, classpath: str) -> str:
    """Compiles one file; returns the class path that runs it, its jar behind the others."""
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
            # A name of this process's own: two test runs may compile at once.
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
    """The command that runs a class. `archive`: a file for its classes to be left in, from `archive_to_make`."""
    command = ["java", f"-Xmx{heap_mib}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", *options]
    if archive is not None:
        command += [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
    else:
        # Of this class path, or of the one that it begins with. One that does not fit any more is passed over.
        kept = (_archive_of(path) for path in (classpath, classpath.rpartition(os.pathsep)[0]))
        command += [f"-XX:SharedArchiveFile={path}" for path in kept if path.exists()][:1]
        command += ["-Xlog:disable"]
    return [*command, "-cp", classpath, main, *arguments]


@contextlib.contextmanager
def archive_to_make(classpath: str) -> Iterator[Path | None]:
    """Where the first process of a class path is to leave its classes, before the block ends; None if one has done so."""
    kept = _archive_of(classpath)
    if kept.exists():
        yield None
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    # A name of this process's own: two test runs may be at it.
    making = kept.with_suffix(f".{os.getpid()}")
    yield making
    if making.exists():
        making.replace(kept)


def run_java(classpath: str, main: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a class to its end."""
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

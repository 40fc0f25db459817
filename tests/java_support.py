"""Kafka's own Java code for tests: jars by Maven, and a small program compiled against them.

Everything skips the test, saying why, where Java or Maven is missing or the jars cannot be had. What Maven resolved is kept
in the user's cache folder, so that it is asked once for each set of artifacts.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

KAFKA_VERSION = "4.4.0"
CACHE = Path(os.environ.get("XDGCACHE_HOME") or Path.home() / ".cache") / "kafka-group-coordinator-tests"
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


def compile_java(source: Path, classpath: str, folder: Path) -> str:
    """Compiles one file into a folder; returns the class path that runs it."""
    command = ["javac", "-nowarn", "-proc:none", "-cp", classpath, "-d", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return os.pathsep.join((str(folder), classpath))


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

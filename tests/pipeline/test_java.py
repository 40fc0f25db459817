"""Java for the jobs: one that does not suit is named, and an archive of classes is used only where it can be trusted."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from pyspark_coordinator_log.jobs import java, job
from pyspark_coordinator_log.jobs.synthetic_log import Plan, write_synthetic_log

pytestmark = pytest.mark.process

A_LOG = Plan(groups=2, decisions=50)


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log"
    write_synthetic_log(folder, A_LOG)
    return folder


def a_java(folder: Path, release: str) -> Path:
    """A home of a Java that only says its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{release}"\n')
    return folder


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A cache folder with a file where the archive belongs."""
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "jdk", "17.0.15")))
    monkeypatch.setenv("COORDINATOR_CACHE_DIR", str(tmp_path / "cache"))
    return an_archive(tmp_path / "cache")


def an_archive(cache: Path) -> Path:
    """Writes four bytes where the archive for this Java belongs."""
    cache.mkdir(mode=0o700, exist_ok=True)
    found = cache / f"{java._stem().name}-4.jsa"
    found.write_bytes(b"java")
    found.chmod(0o600)
    return found


@pytest.mark.parametrize(("release", "named"), [("1.8.0_402", "is Java 8;"), ("11.0.22", "is Java 11;")])
def test_a_java_too_old_for_spark_is_named(release, named, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "jdk", release)))
    assert named in java.problem()


def test_a_java_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.problem().startswith("JAVA_HOME has no bin/java; ")


def test_a_java_that_does_not_start_is_reported_without_a_traceback(log, prepared, tmp_path):
    done = subprocess.run(
        [sys.executable, job.__file__, "audit", "--log", str(log), "--out", str(tmp_path / "out")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]  # before it is what Java itself printed
    assert last.startswith(f"coordinator: Spark could not start {tmp_path / 'jdk' / 'bin' / 'java'}: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("release", ["17.0.15", "25"])
def test_a_java_that_spark_can_use_is_no_problem(release, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "jdk", release)))
    assert java.problem() is None


def test_a_prepared_archive_is_used(prepared):
    assert f"-XX:SharedArchiveFile={prepared} " in java.archive_options()


def test_without_an_archive_java_gets_no_option(prepared):
    prepared.unlink()
    assert java.archive_options() == ""


def test_an_archive_that_was_cut_short_is_not_used(prepared):
    """Java would crash on it."""
    prepared.write_bytes(b"jav")
    assert java.archive_options() == ""


def test_an_archive_that_others_may_write_is_not_used(prepared):
    prepared.chmod(0o466)
    assert java.archive_options() == ""
    prepared.chmod(0o600)
    prepared.parent.chmod(0o777)
    assert java.archive_options() == ""


def test_another_java_or_another_release_of_it_has_another_archive(prepared, tmp_path, monkeypatch):
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.16"\n')
    assert java.archive() is None
    newer = an_archive(prepared.parent)
    assert java.archive() == newer
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "other", "17.0.16")))
    assert java.archive() is None


def test_a_cache_folder_that_cannot_be_written_is_reported_in_one_line(prepared, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COORDINATOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert job.run(SimpleNamespace(job="prepare")) == job.REFUSED
    assert "set COORDINATOR_CACHE_DIR to another folder" in capsys.readouterr().err


def test_a_java_that_writes_no_archive_leaves_the_previous_one(prepared, capsys):
    """This one starts no job at all."""
    assert job.run(SimpleNamespace(job="prepare")) == job.REFUSED
    assert "Java wrote no archive of classes" in capsys.readouterr().err
    assert [path.name for path in prepared.parent.iterdir()] == [prepared.name]


def test_a_new_archive_replaces_the_previous_one_and_is_used(prepared, monkeypatch, capsys):
    monkeypatch.setattr(java, "_train", lambda folder, new: new.write_bytes(b"classes") and "")
    assert job.run(SimpleNamespace(job="prepare")) == job.DONE
    made = java.archive()
    assert made.read_bytes() == b"classes"
    assert capsys.readouterr().out.startswith(f"{made}: ")
    assert list(made.parent.iterdir()) == [made]

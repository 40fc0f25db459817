"""The job script as given to `spark-submit`: invalid input is one line and exit code 2, before Spark starts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from coordinator import cli
from pyspark_coordinator_log.jobs import arguments, job, session

WITHOUT = """
import runpy, sys
sys.modules["{}"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def submitted(
    *arguments: str, by: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the script with its own folder first in the path, as Spark does."""
    return subprocess.run(
        [sys.executable, *by, job.__file__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", ["tables", "audit", "report", "follow"])
def test_a_missing_log_is_reported_in_one_line_and_nothing_is_written(name, tmp_path):
    out = tmp_path / "out"
    done = submitted(name, "--log", str(tmp_path / "none"), "--out", str(out))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("coordinator: ")
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "out"),
    [("follow", "s3a://bucket/followed"), ("follow", "hdfs:/followed"), ("report", "s3a://bucket/report")],
)
def test_a_job_that_needs_a_local_folder_refuses_another_file_system(name, out, tmp_path):
    """`s3a://...` has been taken for the name of a local folder."""
    done = submitted(name, "--log", str(tmp_path), "--out", out)
    assert (done.returncode, done.stderr) == (2, f"coordinator: --out {out}: {name} needs a local folder\n")


@pytest.mark.parametrize(
    ("out", "folder"),
    [
        ("out", "out"),
        ("/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("s3a://a/b", None),
        ("c:d", "c:d"),
    ],
)
def test_a_url_is_a_local_folder_only_with_the_scheme_file(out, folder):
    assert arguments.local_folder(out) == (None if folder is None else Path(folder))


def test_without_java_one_line_says_so(recorded_storm, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    arguments = ["report", "--log", str(recorded_storm.data), "--out", str(tmp_path / "out")]
    done = submitted(*arguments, environment=environment)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("coordinator: Java is not installed; Spark needs Java 17 or newer: install one")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["audit", "report"])
def test_a_group_that_is_not_in_the_log_is_refused_and_nothing_is_written(
    name, spark, recorded_storm, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(session, "session", lambda *_, **__: spark)
    out = tmp_path / "out"
    assert cli.main(["pipeline", name, "--log", str(recorded_storm.data), "--out", str(out), "--group", "nope"]) == 2
    assert f"coordinator: there is no group nope in {recorded_storm.data}" in capsys.readouterr().err.splitlines()
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "wrong"), [("{}", "not an answer of coordinator groups what-if --json"), ("?", "Expecting")]
)
def test_a_file_that_is_no_answer_of_what_if_is_refused_before_spark_starts(recorded_storm, tmp_path, text, wrong):
    (tmp_path / "answer.json").write_text(text)
    out = tmp_path / "report"
    arguments = [
        "report",
        "--log",
        str(recorded_storm.data),
        "--out",
        str(out),
        "--what-if",
        str(tmp_path / "answer.json"),
    ]
    done = submitted(*arguments)
    assert done.returncode == 2
    assert f"--what-if {tmp_path / 'answer.json'}: {wrong}" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("name", ["tables", "audit", "follow"])
@pytest.mark.parametrize(
    ("table_format", "module", "package"),
    [
        ("delta", "deltalake", "deltalake"),
        ("iceberg", "pyiceberg", "'pyiceberg[sql-sqlite]'"),
        ("iceberg", "sqlalchemy", "'pyiceberg[sql-sqlite]'"),
    ],
)
def test_a_format_whose_package_is_missing_is_refused_before_anything_is_written(
    tmp_path, name, table_format, module, package
):
    out = tmp_path / "out"
    arguments = [name, "--log", str(Path(__file__).parent), "--out", str(out), "--format", table_format]
    done = submitted(*arguments, by=("-c", WITHOUT.format(module)))
    assert done.returncode == 2
    said = f"coordinator: --format {table_format}: {module} is not installed; run: pip install {package}\n"
    assert done.stderr == said
    assert not out.exists()


def test_follow_does_not_continue_its_tables_in_another_format(tmp_path):
    (tmp_path / "log" / "__consumer_offsets-0").mkdir(parents=True)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "tables.json").write_text('{"version": 2}')
    done = submitted("follow", "--log", str(tmp_path / "log"), "--out", str(tmp_path), "--format", "iceberg")
    said = "its tables are parquet, so follow with --format parquet or into another folder"
    assert (done.returncode, done.stderr) == (2, f"coordinator: --out {tmp_path}: {said}\n")


def test_no_job_needs_the_context_of_a_classic_session():
    """Spark Connect has neither a context, nor RDDs, nor the driver's JVM."""
    package = Path(job.__file__).parents[1]
    modules = {path.name: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert "verdicts.py" in modules
    classic = re.compile(r"\.sparkContext\b|\.rdd\b|\._jvm\b|\._jdf\b|\._jsc\b|\._jsparkSession\b")
    assert [name for name, text in modules.items() if classic.search(text)] == []

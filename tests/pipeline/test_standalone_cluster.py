"""Jobs on a standalone Spark cluster: a master and two workers on loopback, the log and the tables in a shared folder.

The cluster is the one that pip installs with Spark. It takes minutes: THOROUGH=1 in the environment runs it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.histories import SimulatedHistory
from tests.support.waiting import wait_until

pytest.importorskip("pyspark")

import pyspark

from pyspark_coordinator_log.jobs import job, sources, tables

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(pyspark.__file__).parent / "bin"
WORKERS = 2
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(BIN.parent),
}  # fmt: skip

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]


def daemon(stack: ExitStack, said: Path, name: str, *arguments: str) -> None:
    """Starts a daemon of Spark, which writes what it says to a file."""
    command = [str(BIN / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]
    file = stack.enter_context(said.open("w"))
    process = stack.enter_context(subprocess.Popen(command, env=ENVIRONMENT, stderr=file, stdout=file))
    stack.callback(process.terminate)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master that two workers have joined."""
    folder = tmp_path_factory.mktemp("cluster")
    said = folder / "master.txt"
    with ExitStack() as stack:
        daemon(stack, said, "master.Master", "--port", "0", "--webui-port", "0")
        found: list[str] = []

        def is_up() -> bool:
            found[:] = re.findall(r"Starting Spark master at (spark://\S+)", said.read_text())
            return bool(found)

        wait_until(is_up, "the master", within_s=300)
        for number in range(WORKERS):
            daemon(stack, folder / f"worker{number}.txt", "worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port",
                   "0", "--work-dir", str(folder / f"work{number}"), found[0])  # fmt: skip

        def have_joined() -> bool:
            # A worker that waited too long for the answer registers twice.
            return len(set(re.findall(r"Registering worker (\S+)", said.read_text()))) == WORKERS

        wait_until(have_joined, "the workers", within_s=300)
        yield found[0]


def submit(master: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    options = [part for setting in settings.items() for part in ("--conf", "=".join(setting))]
    return subprocess.run(
        [str(BIN / "spark-submit"), "--master", master, *options, job.__file__, *arguments],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip


def rows(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_tables_and_audit_on_two_workers_are_those_of_one_machine(master, spark, tmp_path):
    log = SimulatedHistory(5).run_workload(120).write(tmp_path / "log")
    done = submit(master, "tables", "--log", str(log), "--out", str(tmp_path / "there"))
    assert done.returncode == 0, done.stderr[-3000:]
    audited = submit(master, "audit", "--log", str(log), "--out", str(tmp_path / "audit"))
    assert audited.returncode == 0, audited.stderr[-3000:]
    assert "broken: nothing" in audited.stdout
    here, there = (tables.Store(spark, str(tmp_path / name), "parquet") for name in ("here", "there"))
    for name, frame in tables.write_tables(tables.Derived(source=sources.from_log(spark, str(log), {})), here):
        if frame is None:
            assert not Path(there.path(name)).exists(), name
        else:
            assert rows(there.read(name, frame.schema)) == rows(frame), name

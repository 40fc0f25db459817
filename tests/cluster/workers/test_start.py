"""A worker that starts while its database does not answer, or is not fit for use: real processes and a real PostgreSQL."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from coordinator.cluster.engine.address import EngineAddress
from coordinator.cluster.engine.engine import EngineRefused, EngineSettings
from coordinator.cluster.engine.postgresql import sql
from coordinator_testing.throwaway_server import read_line
from tests.support.ports import HeldPort
from tests.support.postgresql import Cluster
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until

pytest.importorskip("asyncpg")

SETTINGS = {"data.plane": "none", "journal.replication": "optional"}


@pytest.fixture(scope="module")
def database():
    found = Cluster(standbys=0)
    yield found
    found.close()


def health(admin, path):
    try:
        with urlopen(f"http://{admin}{path}", timeout=20) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return None, None


def begin(worker):
    """Starts it without waiting until it is ready; returns the address of its admin HTTP."""
    worker.begin_to_start()
    return worker.admin_listens_at


def test_a_worker_waits_for_its_database_and_says_so(tmp_path, database):
    """It is alive and not ready, logs each attempt with the reason, and serves as soon as there is a database."""
    worker = ServerProcess(tmp_path, settings=SETTINGS, arguments=("--journal", database.url()))
    database.primary.kill()
    try:
        admin = begin(worker)
        wait_until(lambda: worker.log.count("event=journal_unavailable") == 2, lambda: worker.log)
        assert database.primary.address in worker.log
        assert "p@ss" not in worker.log
        status, answer = health(admin, "/health/ready")
        assert (status, answer["status"]) == (503, "not ready")
        assert answer["reasons"][0].startswith("the journal is unavailable: ")
        assert health(admin, "/health/live") == (200, {"status": "live"})
        assert worker.alive
        database.primary.start()
        assert json.loads(read_line(worker.process.stdout, WITHIN_S))["ready"]
        assert health(admin, "/health/ready")[0] == 200
    finally:
        worker.stop()


def test_an_outage_of_the_database_is_one_line_for_each_reason(tmp_path, database):
    """A worker tries again several times a second until its lease is over, and goes on to."""
    arguments = ("--journal", database.url())
    with ServerProcess(tmp_path, settings=SETTINGS, arguments=arguments) as worker:
        database.primary.kill()
        try:
            wait_until(lambda: health(worker.admin_listens_at, "/health/ready")[0] == 503, lambda: worker.log)
        finally:
            database.primary.start()
        lines = [line.partition(" logger=")[2] for line in worker.log.splitlines() if " reason=" in line]
        assert any("event=beat_failed" in line for line in lines)
        assert len(lines) == len(set(lines)), worker.log


def test_a_worker_that_waits_for_its_database_ends_at_a_signal(tmp_path):
    nobody = HeldPort()
    url = f"postgresql://coordinator@{nobody.address}/coordinator"
    worker = ServerProcess(tmp_path, settings=SETTINGS, arguments=("--journal", url))
    try:
        begin(worker)
        wait_until(lambda: "event=journal_unavailable" in worker.log, lambda: worker.log)
        assert worker.terminate() == 0
    finally:
        worker.stop()
        nobody.release()


def test_a_worker_does_not_wait_for_a_database_that_is_not_fit_for_use(tmp_path, database):
    """It ends at once and says what to set."""
    worker = ServerProcess(
        tmp_path, settings=SETTINGS | {"journal.replication": "required"}, arguments=("--journal", database.url())
    )
    try:
        begin(worker)
        assert worker._wait() == 1
        assert "synchronous_standby_names is empty" in worker.log
        assert "event=journal_unavailable" not in worker.log
    finally:
        worker.stop()


@pytest.mark.parametrize(
    ("version", "said"), [(140_011, "PostgreSQL 14 is too old; 15 or newer is needed"), (150_000, None)]
)
def test_a_database_that_is_too_old_is_refused(database, monkeypatch, version, said):
    """By the number that the server reports."""
    import asyncio

    from coordinator.cluster.engine.postgresql.engine import PostgresqlEngine

    asked = "current_setting('server_version_num')::int"
    assert asked in sql.SERVER
    monkeypatch.setattr(sql, "SERVER", sql.SERVER.replace(asked, str(version)))

    async def open_and_close():
        engine = PostgresqlEngine(
            EngineAddress(database.url()), EngineSettings(cluster="versioned", replication="optional")
        )
        await engine.open()
        await engine.close()

    if said is None:
        asyncio.run(open_and_close())
    else:
        with pytest.raises(EngineRefused, match=said):
            asyncio.run(open_and_close())


STARTS = """
import sys, time
from tests.support.postgresql import Cluster
cluster = Cluster(standbys=0)
print(cluster.primary.process.pid, cluster.folder, flush=True)
time.sleep(600)
"""


def test_a_database_for_tests_ends_with_them_however_they_end(database):
    """Also when the process of the tests is killed."""
    tests = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True)
    assert tests.stdout is not None
    pid, folder = tests.stdout.readline().split()
    tests.kill()
    tests.wait()
    tests.stdout.close()
    wait_until(lambda: not Path(folder).exists(), "the folder to be removed")
    wait_until(lambda: not is_running(int(pid)), "the server to end")


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"

"""PostgreSQL clusters for tests: a primary and standbys, from Debian's packages, on loopback.

The servers run as their own user where the tests run as root, because PostgreSQL refuses to. Each node has its folder and port,
and is stopped, paused and killed by its process id.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ports import HeldPort

TEST_MARKERS = ("database",)

ADMIN, ADMIN_PASSWORD = "postgres", "secret-of-an-administrator"
USER, PASSWORD = "coordinator", "p@ss:word/?#"
VERSION_MIN = 15
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 32MB
wal_keep_size = 128MB
wal_receiver_timeout = 60s
logging_collector = off
"""


def binaries() -> Path:
    """The folder with PostgreSQL's programs; skips the test where there is none."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    folders = [folder for folder in folders if int(folder.parent.name) >= VERSION_MIN]
    if not folders:
        pytest.skip(f"PostgreSQL {VERSION_MIN} or newer is not installed (Debian: apt install postgresql)")
    return max(folders, key=lambda folder: int(folder.parent.name))


def server_user() -> str | None:
    """The user to run servers as; None: the current one."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


class Node:
    """One server: a folder, a port, and a process while it runs."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.folder = cluster.folder / name
        self.held_port = HeldPort()
        self.process: subprocess.Popen[bytes] | None = None
        self.watcher: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return self.held_port.address

    def start(self) -> None:
        log = (self.cluster.folder / f"{self.name}.log").open("ab")
        self.process = subprocess.Popen(
            [self.cluster.binaries / "postgres", "-D", self.folder, "-p", str(self.held_port.port)],
            stdout=log,
            stderr=log,
            user=self.cluster.user,
            cwd=self.cluster.folder,
            start_new_session=True,
        )
        log.close()
        # Its input ends with the tests, however they end.
        self.watcher = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -9 "$0"; rm -rf "$1"', str(self.process.pid), self.cluster.folder],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(self._is_up, self.log)

    def _is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        return self._psql("SELECT 1").returncode == 0

    def log(self) -> str:
        return (self.cluster.folder / f"{self.name}.log").read_text(errors="replace")[-3000:]

    def sql(self, statement: str) -> str:
        """The answer to a statement of the administrator, as text."""
        ran = self._psql(statement)
        assert ran.returncode == 0, f"{statement}: {ran.stderr}"
        return ran.stdout.strip()

    def _psql(self, statement: str) -> "subprocess.CompletedProcess[str]":
        parameters = f"host=127.0.0.1 port={self.held_port.port} user={ADMIN} dbname=postgres connect_timeout=5"
        return subprocess.run(
            [self.cluster.binaries / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", parameters, "-c", statement],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PGPASSWORD": ADMIN_PASSWORD},
        )

    def set(self, name: str, value: str) -> None:
        """Changes a setting of the running server."""
        self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")
        expected = value.replace("''", "'")
        wait_until(lambda: self.sql(f"SHOW {name}") == expected, self.log)

    def processes(self) -> list[int]:
        """The process ids of the server and its children, the server first."""
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def signal_all(self, number: int) -> None:
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def pause(self) -> None:
        """Stops the server (SIGSTOP), and then its children, of which there are no new ones any more."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        for pid in reversed(self.processes()):
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends the server as a crash does."""
        if self.watcher is not None:
            self.watcher.kill()
            self.watcher.communicate()
            self.watcher = None
        if self.process is not None:
            self.signal_all(signal.SIGKILL)
            self.process.wait()
            self.process = None


class Cluster:
    """A primary, and standbys of which one must have every commit (`ANY 1`)."""

    def __init__(self, standbys: int = 2) -> None:
        self.binaries = binaries()
        self.user = server_user()
        self.folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self.primary = Node(self, "first")
        self.standbys = [Node(self, name) for name in ("second", "third")[:standbys]]
        self.nodes = [self.primary, *self.standbys]
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def url(self, *nodes: Node, user: str = USER, password: str = "p%40ss%3Aword%2F%3F%23") -> str:
        """The address for a coordinator: of some nodes, or of all."""
        hosts = ",".join(node.address for node in nodes or self.nodes)
        return f"postgresql://{user}:{password}@{hosts}/postgres"

    def _start(self) -> None:
        template = self.primary.folder
        secret = self.folder / "secret"
        secret.write_text(ADMIN_PASSWORD)
        self._run("initdb", "-D", template, "-A", "scram-sha-256", "-U", ADMIN, f"--pwfile={secret}", "-N")
        with (template / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS)
        for standby in self.standbys:
            self._run("/bin/cp", "-a", template, standby.folder)
            (standby.folder / "standby.signal").touch()
            self.follow(standby, self.primary)
        self.primary.start()
        for standby in self.standbys:
            standby.start()
        if self.standbys:
            self.replicate(self.primary, self.standbys)
        self.primary.sql(
            f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'; CREATE SCHEMA coordinator AUTHORIZATION {USER};"
            f" GRANT CREATE ON DATABASE postgres TO {USER}"
        )

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [self.binaries / program, *map(str, arguments)], check=True, capture_output=True, user=self.user, cwd="/"
        )

    def follow(self, standby: Node, primary: Node) -> None:
        """Lets a standby that does not run follow a primary."""
        with (standby.folder / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{self._conninfo(standby, primary)}'\n")

    @staticmethod
    def _conninfo(standby: Node, primary: Node) -> str:
        server = f"host=127.0.0.1 port={primary.held_port.port} user={ADMIN} password={ADMIN_PASSWORD}"
        return f"{server} application_name={standby.name}"

    def replicate(self, primary: Node, standbys: list[Node]) -> None:
        """Makes every commit of the primary wait for one of the standbys."""
        primary.set("synchronous_standby_names", f"ANY 1 ({', '.join(standby.name for standby in standbys)})")
        counted = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'"
        wait_until(lambda: primary.sql(counted) == str(len(standbys)), primary.log)

    def fail_over(self) -> Node:
        """Promotes the standby that has most, after no standby follows the old primary any more; returns it."""
        for standby in self.standbys:
            standby.set("primary_conninfo", "")
            wait_until(lambda node=standby: node.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0", standby.log)
        received = "SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn"
        best = max(self.standbys, key=lambda node: int(node.sql(received)))
        best.sql("SELECT pg_promote()")
        others = [standby for standby in self.standbys if standby is not best]
        for standby in others:
            standby.sql(f"ALTER SYSTEM SET primary_conninfo = '{self._conninfo(standby, best)}'")
            standby.sql("SELECT pg_reload_conf()")
        if others:
            self.replicate(best, others)
        self.primary, self.standbys = best, others
        return best

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
            node.held_port.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until(is_so: Callable[[], bool], explain: Callable[[], str], seconds: float = 60) -> None:
    """Waits for other processes; fails with an explanation."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.02)

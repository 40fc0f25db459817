"""`coordinator exec`: a command with a throw-away server."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from coordinator import cli
from tests.support.waiting import WITHIN_S
from tests.support.wire import Connection

pytestmark = pytest.mark.process

ROUND_TRIP = """
import os
from confluent_kafka import Consumer, Producer

producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP"]})
producer.produce("exec", b"order 1")
assert producer.flush(10) == 0
consumer = Consumer({"bootstrap.servers": os.environ["BOOTSTRAP"], "group.id": "g", "auto.offset.reset": "earliest"})
consumer.subscribe(["exec"])
assert consumer.poll(10).value() == b"order 1"
consumer.close()
"""
SEEN = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder in which temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "coordinator", "exec", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_a_command_reaches_the_server_and_leaves_nothing_behind(folder):
    assert cli.main(["exec", "--", sys.executable, "-c", ROUND_TRIP]) == 0
    assert list(folder.iterdir()) == []


def test_a_command_finds_the_groups_of_another_server(folder, coordinator_process, capfd):
    source = coordinator_process()
    with Connection(source.bootstrap) as link:
        partition = {"partition_index": 0, "committed_offset": 5}
        link.call("OffsetCommit", 8, group_id="billing", topics=[{"name": "orders", "partitions": [partition]}])
    listing = [sys.executable, "-m", "coordinator", "groups", "offsets", "billing", "--json"]
    assert cli.main(["exec", "--from", str(source.data_dir), "--", *listing]) == 0
    [found] = json.loads(capfd.readouterr().out)["offsets"]
    assert (found["topic"], found["offset"]) == ("orders", 5)
    assert cli.main(["exec", "--from", "nowhere", "--", *listing]) == 1
    assert "'nowhere' is neither a folder nor HOST:PORT" in capfd.readouterr().err


def test_modules_of_the_current_folder_do_not_take_the_place_of_the_servers(folder, tmp_path_factory, monkeypatch):
    project = tmp_path_factory.mktemp("project")
    for name in ("types.py", "coordinator.py", "logging.py"):
        (project / name).write_text("raise SystemExit('a module of the project')\n")
    monkeypatch.chdir(project)
    assert cli.main(["exec", "--", "true"]) == 0


@pytest.mark.parametrize(
    ("program", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_the_exit_code_is_that_of_the_command_as_a_shell_reports_it(folder, program, code):
    assert cli.main(["exec", "sh", "-c", program]) == code


def test_the_command_finds_the_server_in_its_environment(folder, capfd):
    assert cli.main(["exec", "--set", "group.max.size=3", "--", sys.executable, "-c", SEEN]) == 0
    seen = json.loads(capfd.readouterr().out)
    assert seen["BOOTSTRAP"].startswith("127.0.0.1:")
    assert seen["KAFKA_BOOTSTRAP_SERVERS"] == seen["SPRING_KAFKA_BOOTSTRAP_SERVERS"] == seen["BOOTSTRAP"]
    assert seen["ADMIN_URL"].startswith("http://127.0.0.1:")
    assert set(os.environ) <= set(seen)


def test_options_after_the_first_word_belong_to_the_command(folder, capfd):
    assert cli.main(["exec", "echo", "--set", "x", "--help"]) == 0
    assert capfd.readouterr().out == "--set x --help\n"


def test_a_command_that_does_not_exist_exits_with_127_and_starts_no_server(folder, capsys):
    assert cli.main(["exec", "--", "no-such-command"]) == 127
    assert capsys.readouterr().err == "coordinator: there is no command no-such-command\n"
    assert list(folder.iterdir()) == []


def test_a_wrong_setting_exits_with_2_before_anything_starts(folder, capsys):
    assert cli.main(["exec", "--set", "group.max.sise=1", "--", "true"]) == 2
    assert "did you mean group.max.size?" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_the_log_of_the_server_can_be_kept(folder):
    assert cli.main(["exec", "--log", str(folder / "server.log"), "--", "true"]) == 0
    assert "event=stopped" in (folder / "server.log").read_text()


def test_sigterm_goes_to_the_command_and_its_exit_code_comes_back(folder):
    running = started("--", "sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGTERM)
    assert running.wait(WITHIN_S) == 3
    running.communicate()
    assert list(folder.iterdir()) == []


def test_ctrl_c_reaches_the_command_while_the_server_is_still_there(folder):
    asks = "coordinator ready --admin ${ADMIN_URL#http://} && exit 4"
    module = f"{sys.executable} -m coordinator"
    program = f"trap '{asks.replace('coordinator', module)}' INT; echo ready; while :; do sleep 0.05; done"
    running = started("--", "sh", "-c", program)
    assert running.stdout.readline() == "ready\n"
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    assert running.wait(WITHIN_S) == 4
    assert '"status": "ready"' in running.communicate()[0]
    assert list(folder.iterdir()) == []


KILL_SERVER = """
import os, signal
from pathlib import Path

parent = os.getppid()
children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
[server] = set(map(int, children)) - {os.getpid()}
os.kill(server, signal.SIGKILL)
def is_dead():
    is_zombie = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return is_zombie and len(os.listdir(f"/proc/{server}/task")) == 1  # the first thread may be dead before the others
while not is_dead():
    pass  # killing takes a moment
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the server through /proc")
def test_a_server_that_dies_during_the_command_is_reported(folder):
    running = started("--", sys.executable, "-c", KILL_SERVER)
    _, error = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 0
    assert error.startswith("coordinator: the server ended before the command")

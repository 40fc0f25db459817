"""`coordinator ready`, the health check of the image."""

import socket
import subprocess
import sys

from coordinator import cli
from tests.support.waiting import WITHIN_S


def test_ready_succeeds_if_the_server_is_ready(coordinator_process, capsys):
    server = coordinator_process()
    assert cli.main(["ready", "--admin", server.admin.removeprefix("http://")]) == 0
    assert '"status": "ready"' in capsys.readouterr().out


def test_ready_fails_if_there_is_no_server(capsys, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("COORDINATOR_ADMIN", f"0.0.0.0:{unused.getsockname()[1]}")
        assert cli.main(["ready"]) == 1
    assert "Connection refused" in capsys.readouterr().err


def test_ready_needs_no_address_for_clients(coordinator_process, capsys, monkeypatch):
    """Testcontainers' modules give that address to the server alone, not to the container's health check."""
    server = coordinator_process()
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092")
    monkeypatch.setenv("COORDINATOR_ADMIN", server.admin.removeprefix("http://"))
    assert cli.main(["ready"]) == 0
    assert '"status": "ready"' in capsys.readouterr().out


def test_ready_with_a_wrong_configuration_exits_with_2(capsys):
    assert cli.main(["ready", "--admin", "nowhere"]) == 2
    assert "HOST:PORT" in capsys.readouterr().err


def test_ready_waits_for_a_server_that_starts_later(coordinator_process):
    server = coordinator_process()
    address = server.admin_listens_at
    server.kill()
    command = [sys.executable, "-m", "coordinator", "ready", "--admin", address, "--wait"]
    assert subprocess.run([*command, "0.2"], capture_output=True, check=False).returncode == 1
    with subprocess.Popen([*command, str(WITHIN_S)], stdout=subprocess.PIPE, text=True) as waiting:
        server.start()
        answer, _ = waiting.communicate(timeout=WITHIN_S)
    assert waiting.returncode == 0
    assert '"status": "ready"' in answer

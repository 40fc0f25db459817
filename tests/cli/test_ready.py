"""`coordinator ready`, the health check of the image."""

import socket

from coordinator import cli


def test_a_server_that_is_ready_is_said_to_be(coordinator_process, capsys):
    server = coordinator_process()
    assert cli.main(["ready", "--admin", server.admin.removeprefix("http://")]) == 0
    assert '"status": "ready"' in capsys.readouterr().out


def test_a_server_that_is_not_there_is_not_ready(capsys, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("COORDINATOR_ADMIN", f"0.0.0.0:{unused.getsockname()[1]}")
        assert cli.main(["ready"]) == 1
    assert "Connection refused" in capsys.readouterr().err


def test_wrong_settings_are_a_wrong_command_line(capsys):
    assert cli.main(["ready", "--admin", "nowhere"]) == 2
    assert "HOST:PORT" in capsys.readouterr().err

"""The command line: its output, its exit codes, and that a refused configuration creates nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from coordinator import cli

REPOSITORY = Path(__file__).resolve().parents[2]


def coordinator(*arguments: str, folder: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder, check=False)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--set", "group.max.size=0"),
        ("--set", "group.max.sise=1"),
        ("--set", "group.consumer.max.size=0"),
        ("--config", "nowhere.yaml"),
        ("--listen", "9092"),
        ("--listen", "0.0.0.0:0"),
        ("--nonsense",),
    ],
)
def test_a_wrong_configuration_exits_with_2_and_creates_nothing(tmp_path, wrong):
    finished = coordinator("serve", "--data-dir", str(tmp_path / "data"), *wrong, folder=REPOSITORY)
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert finished.stderr.strip()
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_one_line_with_key_value_source_and_what_is_allowed():
    finished = coordinator("serve", "--set", "durability=maybe")
    assert finished.stderr == "coordinator: durability = maybe (--set): allowed: fsync or write\n"


def test_config_defaults_prints_the_default_file(capsys):
    assert cli.main(["config", "defaults"]) == 0
    assert capsys.readouterr().out == (REPOSITORY / "config" / "default.yaml").read_text()


def test_config_show_prints_the_configuration_that_serve_uses(capsys):
    assert cli.main(["config", "show", "--set", "group.max.size=9"]) == 0
    assert "group.max.size: 9\n" in capsys.readouterr().out


def test_config_list_has_every_setting_with_its_documentation(capsys):
    from coordinator.config.settings import SETTINGS, STRUCTURED

    assert cli.main(["config", "list"]) == 0
    listed = capsys.readouterr().out
    text = " ".join(listed.split())
    assert all(f"\n  {name} = " in listed for name in SETTINGS)
    assert all(setting.documentation in text for setting in [*SETTINGS.values(), *STRUCTURED.values()])
    assert all(f"Allowed: {setting.allowed}." in text for setting in [*SETTINGS.values(), *STRUCTURED.values()])
    assert "offsets.retention.minutes = 10080  (7 days)\n" in listed
    assert "group.streams.rack.aware.assignment.tags = ''\n" in listed


def test_protocol_show_prints_the_fields_of_a_version_and_its_code(capsys):
    assert cli.main(["protocol", "show", "JoinGroup", "9"]) == 0
    shown = capsys.readouterr().out
    assert "JoinGroupRequest v9, flexible\n" in shown
    assert "    GenerationId: int32, tag 792\n" in shown
    assert "    GroupInstanceId: string or null\n" in shown
    assert "JoinGroupResponse v9, flexible\n" in shown
    assert "def decode(buffer, pos):" in shown


def test_protocol_show_prints_the_fields_of_a_dialect(capsys):
    assert cli.main(["protocol", "show", "JoinGroupRequest", "8", "--dialect", "kip-792"]) == 0
    assert "    GenerationId: int32\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("JoinGrop", "1"), "no message 'JoinGrop'"),
        (("JoinGroup", "99"), "has versions 0 to 9, not 99"),
        (("JoinGroup", "9", "--dialect", "kip-1"), "no dialect"),
    ],
)
def test_protocol_show_refuses_unknown_messages_versions_and_dialects(capsys, arguments, words):
    assert cli.main(["protocol", "show", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_command_line_by_itself_imports_neither_server_nor_yaml():
    """Start-up must be fast, so each command imports only what it needs."""
    code = "import sys, coordinator.cli; print(*[m for m in ('yaml', 'asyncio', 'construct') if m in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout.strip() == ""

"""The command line: its output, its exit codes, and that a refused configuration creates nothing."""

import contextlib
import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from coordinator import cli
from coordinator.protocol.codec import Codec
from coordinator.protocol.schema import dialects

REPOSITORY = Path(__file__).resolve().parents[2]


def coordinator(*arguments: str, folder: Path = REPOSITORY, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator", *arguments]
    environment = os.environ | variables
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder, check=False, env=environment)


def test_precompile_stores_the_code_of_every_message_in_every_version(tmp_path):
    folder = str(tmp_path / "code")
    done = coordinator("protocol", "precompile", COORDINATOR_CACHE_DIR=folder)
    assert (done.stdout, done.stderr, done.returncode) == (f"{folder}\n", "", 0)
    codecs = [Codec.of(dialect) for dialect in (None, *dialects())]
    stored = {path.name.partition(".")[0] for path in Path(folder).iterdir()}
    assert stored == {"classes"} | {
        f"{name}-{what}"
        for codec in codecs
        for name in codec.schemas.names
        for what in ("constructors", *(f"v{version}" for version in codec.versions(name)))
    }


def test_precompile_refuses_a_folder_that_is_not_the_users_alone(tmp_path):
    tmp_path.chmod(0o777)
    done = coordinator("protocol", "precompile", COORDINATOR_CACHE_DIR=str(tmp_path))
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == f"coordinator: {tmp_path} must be writable, and by no other user\n"
    assert coordinator("protocol", "precompile", COORDINATOR_CACHE_DIR="off").returncode == 2


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
    assert "# Changed by --set; default: 2147483647.\ngroup.max.size: 9\n" in capsys.readouterr().out


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


def test_emulate_diff_shows_defaults_that_changed_and_configs_that_one_of_two_releases_lacks(capsys):
    assert cli.main(["emulate", "diff", "3.9", "4.4"]) == 0
    rows = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert "topic config message.timestamp.after.max.ms 9223372036854775807 3600000" in rows
    assert "topic config message.format.version 3.0-IV1 -" in rows
    assert "group config streams.session.timeout.ms - 45000" in rows


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
    code = (
        "import sys; from coordinator import cli; cli.main(['--help'])\n"
        "heavy = ('yaml', 'asyncio', 'construct', 'httpx', 'msgspec', 'coordinator.cli.groups')\n"
        "print(*[m for m in heavy if m in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("wrong", "suggested"),
    [(["grops", "list"], "groups"), (["groups", "lits"], "list"), (["serve", "--lissten", "x"], "--listen")],
)
def test_a_typo_in_a_command_or_option_is_answered_with_the_right_name(capsys, wrong, suggested):
    assert cli.main(wrong) == 2
    complaint, advice = capsys.readouterr().err.splitlines()
    assert complaint.startswith("coordinator: No such ")
    assert repr(suggested) in complaint
    assert advice.startswith("try: coordinator ")
    assert advice.endswith(" --help")


def test_a_command_without_its_subcommand_prints_the_list_of_them_and_exits_with_2(capsys):
    assert cli.main(["groups"]) == 2
    assert "reset-offsets" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"coordinator {version('kafka-group-coordinator')}\n"


ROOT = click.Context(cli.coordinator, info_name="coordinator")


def all_commands(context: click.Context = ROOT) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is not a group, with the words that call it."""
    group = context.command
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from all_commands(inner)
        else:
            yield tuple(inner.command_path.split()[1:]), command


@pytest.mark.parametrize(("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in all_commands()])
def test_the_help_of_every_command_has_a_text_for_each_option_and_examples_that_parse(words, command, capsys):
    assert cli.main([*words, "--help"]) == 0
    assert f"Usage: coordinator {' '.join(words)}" in capsys.readouterr().out
    assert all(option.help for option in command.params if isinstance(option, click.Option)), words
    examples = [
        shlex.split(line, comments=True) for line in command.epilog.splitlines() if line.startswith("  coordinator ")
    ]
    assert examples
    for example in examples:
        called = example[1 : 1 + len(words)]
        assert tuple(called) == words
        rest = example[1 + len(words) :]
        rest = rest[: next((i for i, word in enumerate(rest) if word in {"|", "<", ">", "&&"}), len(rest))]
        assert command.make_context(words[-1], rest)


def test_the_list_of_commands_says_the_same_as_the_commands():
    for name, each in cli.COMMANDS.items():
        command = cli.coordinator.get_command(ROOT, name)
        assert command.name == name
        assert each.about.endswith(".")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_values(shell):
    """Runs the script's question to the command, as the shell does: `coordinator log dump --as tr<TAB>`."""
    assert f"_COORDINATOR_COMPLETE={shell}_complete" in coordinator(_COORDINATOR_COMPLETE=f"{shell}_source").stdout

    def completed(words: str, word: str) -> str:
        asked = {"_COORDINATOR_COMPLETE": f"{shell}_complete", "COMP_WORDS": f"{words} {word}"}
        asked["COMP_CWORD"] = word if shell == "fish" else str(len(words.split()))
        finished = subprocess.run(
            [sys.executable, "-m", "coordinator"], env=os.environ | asked, capture_output=True, text=True, check=True
        )
        return finished.stdout

    assert "groups" in completed("coordinator", "gr")
    assert "reset-offsets" in completed("coordinator groups", "re")
    assert "--advertise" in completed("coordinator serve", "--ad")
    assert "transactions" in completed("coordinator log dump --as", "tr")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_accepts_the_completion_script():
    script = coordinator(_COORDINATOR_COMPLETE="bash_source").stdout
    subprocess.run(["bash", "-n", "-c", script], check=True)


def test_colours_are_for_terminals_only_and_no_color_switches_them_off():
    """A pseudo-terminal is a terminal; a pipe is none."""
    assert "\x1b" not in coordinator("serve", "--help").stdout
    assert "\x1b[1mOptions" in on_terminal("serve", "--help")
    assert "\x1b[31mcoordinator:" in on_terminal("serve", "--nonsense")
    assert "\x1b[33m# Changed by --set" in on_terminal("config", "show", "--set", "group.max.size=9")
    assert "\x1b" not in on_terminal("serve", "--help", NO_COLOR="1")
    assert "\x1b" not in on_terminal("serve", "--nonsense", NO_COLOR="1")


def on_terminal(*arguments: str, **environment: str) -> str:
    """What the command prints if stdout and stderr are a terminal."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator", *arguments],
        stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=os.environ | {"TERM": "xterm"} | environment,
    )  # fmt: skip
    os.close(terminal)
    printed = b""
    with contextlib.suppress(OSError):  # the terminal is closed
        while piece := os.read(master, 65536):
            printed += piece
    os.close(master)
    process.wait(60)
    return printed.decode()

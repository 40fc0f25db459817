"""`coordinator man`: the manual page of all commands, made of their help texts."""

import re
from collections.abc import Iterator
from importlib.metadata import version

import click

from coordinator.cli.command_line import Command, examples

EXIT_CODES = (
    ("0", "Success."),
    ("1", "A failure, such as a log in which `log check` finds damage."),
    ("2", "The command line or the configuration is wrong, and nothing was created."),
)
VARIABLES = (
    ("BOOTSTRAP, ADMIN_URL", "The server, for the commands that are its clients; `coordinator exec` sets both."),
    (
        "ADMIN_TOKEN, ADMIN_CA, ADMIN_CERTIFICATE",
        "What its admin HTTP asks of `coordinator control`: the token, PEM files with its authority and an identity.",
    ),
    ("COORDINATOR_SET_name", "A setting of the server, with underscores for dots."),
    (
        "COORDINATOR_LISTEN, COORDINATOR_ADVERTISE, COORDINATOR_ADMIN, COORDINATOR_DATA_DIR, COORDINATOR_JOURNAL",
        "The options of those names.",
    ),
    ("KAFKA_name", "A setting as Kafka's images name it, if this server has it."),
    ("NO_COLOR", "Switches colours off."),
)


@click.command(
    cls=Command,
    epilog=examples("coordinator man | man -l -", "coordinator man > ~/.local/share/man/man1/coordinator.1"),
)
def man() -> int:
    """Print the manual page of all commands, in the format of man(1)."""
    root = click.get_current_context().find_root()
    print("\n".join(page(root)))
    return 0


def page(root: click.Context) -> Iterator[str]:
    """The lines of the manual page."""
    command = root.command
    assert isinstance(command, click.Group)
    yield f'.TH COORDINATOR 1 "" "kafka-group-coordinator {version("kafka-group-coordinator")}" "User Commands"'
    yield from (".SH NAME", f"coordinator \\- {_text((command.help or '').rstrip('.'))}")
    yield from (".SH SYNOPSIS", ".B coordinator", r".I COMMAND", "[OPTION]... [ARGUMENT]...")
    yield ".SH COMMANDS"
    for context in _commands(root):
        yield from _command(context)
    yield from _list("EXIT STATUS", EXIT_CODES)
    yield from _list("ENVIRONMENT", VARIABLES)


def _commands(context: click.Context) -> Iterator[click.Context]:
    """The contexts of all commands that are not groups."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield from _commands(inner) if isinstance(command, click.Group) else [inner]


def _command(context: click.Context) -> Iterator[str]:
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_text(context.command_path)} {_text(usage)}"
    for paragraph in (command.help or "").split("\n\n"):
        yield from (_text(" ".join(paragraph.split())), ".PP")
    for option in command.get_params(context):
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record is not None:
            yield from (".TP", f"\\fB{_text(record[0])}\\fR", _text(record[1]))
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    yield from (".PP", "Examples:", ".PP", ".nf", *(f"    {_text(line)}" for line in lines), ".fi")


def _list(heading: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f".SH {heading}"
    for term, text in rows:
        yield from (".TP", f"\\fB{_text(term)}\\fR", _text(text))


def _text(text: str) -> str:
    """The text without meaning for troff: a leading dot or quote would be a request, a bare hyphen a typographic one."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped)

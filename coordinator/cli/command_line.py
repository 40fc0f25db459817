"""What all commands share: groups whose commands are imported on use, the look of help texts, and errors on one line.

click does the rest: options, types, suggestions for typos, completion.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

REFUSED = 2
"""The exit code for a wrong command line or configuration."""


ENTRY_POINTS = "coordinator.commands"
"""The entry points with which other packages add commands, for example `groups rebalance = package.module:rebalance`."""


class Loaded(NamedTuple):
    """A command that is imported on use. `about` is shown in the help text of its group, which imports nothing."""

    module: str
    about: str


class HelpFormatter(click.HelpFormatter):
    """Help texts with bold headings; click removes the escape sequences if the output is no terminal."""

    def write_heading(self, heading: str) -> None:
        super().write_heading(click.style(heading, bold=True))


class Context(click.Context):
    """The context of every command. NO_COLOR switches colours off (no-color.org)."""

    formatter_class = HelpFormatter

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if os.environ.get("NO_COLOR"):
            self.color = False


class Command(click.Command):
    """A command. Its function returns the exit code."""

    context_class = Context


class Group(click.Group):
    """A group of commands, listed in the order of their definition."""

    context_class = Context
    command_class = Command

    def list_commands(self, context: click.Context) -> list[str]:
        return [*self.commands, *_added(context)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in self.commands:
            return self.commands[name]
        added = _added(context).get(name)
        return None if added is None else added.load()

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.about(context, name)) for name in self.list_commands(context)])

    def about(self, context: click.Context, name: str) -> str:
        """The first sentence of a command's help text."""
        command = self.get_command(context, name)
        assert command is not None
        return command.get_short_help_str(200)


def _added(context: click.Context) -> "dict[str, EntryPoint]":
    """The commands that other packages add to the group of this context, by name."""
    from importlib.metadata import entry_points

    path = context.command_path.split()[1:]
    words = {tuple(entry.name.split()): entry for entry in entry_points(group=ENTRY_POINTS)}
    return {name: entry for (*above, name), entry in words.items() if above == path}


class LazyGroup(Group):
    """A group whose commands are attributes of modules of `package`. A module is imported when its command is used."""

    def __init__(self, name: str, package: str, loaded: Mapping[str, Loaded], **attributes: Any) -> None:
        super().__init__(name, commands=dict.fromkeys(loaded), **attributes)  # type: ignore[arg-type]
        self._package = package
        self._loaded = loaded

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._loaded:
            return super().get_command(context, name)
        module = importlib.import_module(f"{self._package}.{self._loaded[name].module}")
        command: click.Command = getattr(module, name)
        return command

    def about(self, context: click.Context, name: str) -> str:
        return self._loaded[name].about if name in self._loaded else super().about(context, name)


def examples(*lines: str) -> str:
    """Examples for the end of a help text; click does not wrap them."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def exactly_one(**given: Any) -> None:
    """Raises click.UsageError unless exactly one of these options has a value."""
    flags = [f"--{name.replace('_', '-')}" for name in given]
    if sum(value is not None for value in given.values()) != 1:
        raise click.UsageError(f"Exactly one of {', '.join(flags[:-1])} and {flags[-1]} is required.", _context())


def _context() -> click.Context:
    return click.get_current_context()


def until_stopped(show: Callable[[], int | None]) -> int:
    """Calls `show`, which Ctrl-C or SIGTERM may end: both are an orderly end. Returns its exit code, 0 if it has none.

    Ctrl-C does not reach a command that a shell runs in the background (POSIX has it ignored there); `kill` does.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return show() or 0
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)


def fail(error: Exception | str, code: int = 1) -> int:
    """Prints an error on one line. Returns the exit code."""
    click.echo(f"{click.style('coordinator:', fg='red')} {error}", err=True, color=_colour())
    return code


def refused(error: Exception | str) -> int:
    """Prints why a configuration or an argument is wrong. Returns the exit code."""
    return fail(error, REFUSED)


def refused_unless_closed(error: Exception) -> int:
    """Prints the error, unless the reader of the output has closed it, which is not an error."""
    if isinstance(error, BrokenPipeError):
        raise error
    return refused(error)


def report(error: click.ClickException) -> None:
    """Prints an error in the command line and how to get help. A group without a command prints its help."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    fail(error.format_message())
    context = getattr(error, "ctx", None)
    if context is not None:
        print(f"try: {context.command_path} --help", file=sys.stderr)


def _colour() -> bool | None:
    """False if NO_COLOR is set; None lets click decide by the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def combined(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One decorator for several options, which appear in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate

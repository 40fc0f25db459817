"""`coordinator completion`: the script with which a shell completes commands and options."""

import click

from coordinator.cli.command_line import Command, examples

VARIABLE = "_COORDINATOR_COMPLETE"
"""The variable in which the script asks for completions. click derives it from the command's name."""


@click.command(
    cls=Command,
    epilog=examples(
        'eval "$(coordinator completion bash)"      # in ~/.bashrc; needs bash 4.4',
        'eval "$(coordinator completion zsh)"       # in ~/.zshrc',
        "coordinator completion fish > ~/.config/fish/completions/coordinator.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print a script that makes SHELL complete commands, options and their values."""
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root()
    complete = get_completion_class(shell)
    assert complete is not None
    script = complete(root.command, {}, "coordinator", VARIABLE)
    print(script.source_template % script.source_vars())
    return 0

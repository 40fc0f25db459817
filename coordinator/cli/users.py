"""`coordinator users`: SCRAM users over the Kafka protocol."""

from pathlib import Path
from typing import Unpack

import click

from coordinator.cli.client_options import Access, client_options, json_option, read_password, with_client
from coordinator.cli.command_line import Group, examples

_user = click.argument("name", metavar="USER")


@click.group(cls=Group)
def users() -> None:
    """Show, add and remove SCRAM users over the Kafka protocol, on this server or a real Kafka."""


@users.command("list", epilog=examples("coordinator users list", "coordinator users list --json"))
@client_options
@json_option
def users_list(as_json: bool, **access: Unpack[Access]) -> int:
    """List SCRAM users."""
    from coordinator.operations import access as shown

    return with_client(access, lambda client: shown.show_users(client, as_json=as_json))


@users.command(
    epilog=examples(
        "coordinator users add alice",
        "coordinator users add alice --new-password-file alice.txt --mechanism SCRAM-SHA-256",
    )
)
@_user
@click.option(
    "--mechanism",
    type=click.Choice(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    default="SCRAM-SHA-512",
    show_default=True,
    help="The mechanism that the user authenticates with.",
)
@click.option(
    "--new-password-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with the password of the user; without it, NEW_PASSWORD has the password, or the terminal asks for it.",
)
@client_options
def add(name: str, mechanism: str, new_password_file: Path | None, **access: Unpack[Access]) -> int:
    """Add a user, or set the password of one."""
    from coordinator.operations import access as shown

    password = read_password(new_password_file, "NEW_PASSWORD", "--new-password-file")
    return with_client(access, lambda client: shown.show_password_set(client, name, mechanism, password))


@users.command(epilog=examples("coordinator users remove alice"))
@_user
@client_options
def remove(name: str, **access: Unpack[Access]) -> int:
    """Remove a user."""
    from coordinator.operations import access as shown

    return with_client(access, lambda client: shown.show_user_removed(client, name))

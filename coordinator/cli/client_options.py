"""The options of the commands that are clients of a server, over the Kafka protocol."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import click

from coordinator.cli.command_line import combined, fail

if TYPE_CHECKING:
    from coordinator.operations.client import Client


class Access(TypedDict):
    """The values of `client_options`."""

    bootstrap: str
    timeout: float


timeout_option = click.option(
    "--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS", help="For how long to wait and retry."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
client_options = combined(
    click.option(
        "--bootstrap",
        default="127.0.0.1:9092",
        show_default=True,
        metavar="HOST:PORT,...",
        help="The bootstrap servers.",
    ),
    timeout_option,
)


def with_client(access: Access, show: "Callable[[Client], int]") -> int:
    """Calls `show` with a client and returns its exit code. An error is printed on one line."""
    from coordinator.operations.client import Client, OperationFailed

    try:
        with Client(access["bootstrap"], access["timeout"]) as client:
            return show(client)
    except OperationFailed as error:
        return fail(error)

"""The options of the commands that are clients of a server, over the Kafka protocol."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import click

from coordinator.cli.command_line import combined, fail, until_stopped

if TYPE_CHECKING:
    from coordinator.client.login.tls import Security
    from coordinator.operations.client import Client


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_FILE = click.Path(path_type=Path)
SOURCE_PREFIX = "from-"
"""Of the options of `serve` for a source that is a server."""


class ConnectionAccess(TypedDict):
    """The values of `connection_options`."""

    timeout: float
    tls: bool
    tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    sasl: str | None
    user: str | None
    password_file: Path | None


class Access(ConnectionAccess):
    """The values of `client_options`."""

    bootstrap: str


class WatchedAccess(Access):
    """The values of `client_options` and `watch_options`."""

    watch: bool
    interval: float


def connection_options(prefix: str = "", note: str = "") -> list[Callable[[Any], Any]]:
    """How to connect. `prefix`: of the names of the options; `note`: at the end of each help text."""

    def option(name: str, help: str, **attributes: Any) -> Callable[[Any], Any]:  # noqa: A002 - as click has it
        return click.option(f"--{prefix}{name}", help=f"{help}{note}", **attributes)

    return [
        option(
            "timeout", "How long to wait and retry.", type=float, default=10.0, show_default=True, metavar="SECONDS"
        ),
        option("tls", "Connect with TLS.", is_flag=True),
        option("tls-ca", "Trust these certificates (PEM), not the system's.", type=_FILE, metavar="FILE"),
        option("tls-cert", "The certificate of this client (PEM), for mutual TLS.", type=_FILE, metavar="FILE"),
        option("tls-key", "Its key, if it is in another file.", type=_FILE, metavar="FILE"),
        option("sasl", "Authenticate with this mechanism.", type=click.Choice(MECHANISMS)),
        option("user", f"The user, with --{prefix}sasl.", metavar="NAME"),
        option(
            "password-file",
            "A file with the password; else it is in SASL_PASSWORD, or a terminal is asked for it.",
            type=_FILE,
            metavar="FILE",
        ),
    ]


timeout_option = connection_options()[0]
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
client_options = combined(
    click.option(
        "--bootstrap",
        default="127.0.0.1:9092",
        show_default=True,
        envvar="BOOTSTRAP",
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="The bootstrap servers.",
    ),
    *connection_options(),
)
source_options = combined(*connection_options(SOURCE_PREFIX, " (With --from HOST:PORT.)"))


watch_options = combined(
    click.option("--watch", is_flag=True, help="Show it again at each interval, until Ctrl-C."),
    click.option(
        "--interval",
        type=click.FloatRange(min=0.1),
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help="With --watch: the time between two rounds.",
    ),
)


def with_client(access: Access, show: "Callable[[Client], int]") -> int:
    """Calls `show` with a client and returns its exit code. An error is printed on one line."""
    return _with_client(access, security_of_connection(access), show)


def _with_client(access: Access, security: "Security", show: "Callable[[Client], int]") -> int:
    from coordinator.operations.client import Client, OperationFailed

    try:
        with Client(access["bootstrap"], access["timeout"], security) as client:
            return show(client)
    except OperationFailed as error:
        return fail(error)


def access_to_source(options: Mapping[str, object]) -> ConnectionAccess:
    """The values of `source_options`, as `connection_options` name them."""
    values = {name: options[f"{SOURCE_PREFIX.replace('-', '_')}{name}"] for name in ConnectionAccess.__annotations__}
    return cast(ConnectionAccess, values)


def security_of_connection(access: ConnectionAccess, prefix: str = "") -> "Security":
    """How the client's connections are protected. Raises click.UsageError if options contradict each other."""
    from coordinator.client.login.sasl import Sasl
    from coordinator.client.login.tls import Security, Tls

    for file in (access["tls_ca"], access["tls_cert"], access["tls_key"]):
        if file is not None:
            refuse_missing(file)
    tls = sasl = None
    if access["tls"] or access["tls_ca"] or access["tls_cert"]:
        tls = Tls(ca=access["tls_ca"], certificate=access["tls_cert"], key=access["tls_key"])
    if bool(access["sasl"]) is not bool(access["user"]):
        raise click.UsageError(f"--{prefix}sasl and --{prefix}user require each other.", click.get_current_context())
    if access["sasl"] and access["user"]:
        sasl = Sasl(
            mechanism=access["sasl"],
            user=access["user"],
            password=read_password(access["password_file"], "SASL_PASSWORD", f"--{prefix}password-file"),
        )
    return Security(tls=tls, sasl=sasl)


def refuse_missing(file: Path) -> None:
    """Raises click.UsageError if there is no such file."""
    if not file.is_file():
        raise click.UsageError(f"There is no file {file}.", click.get_current_context())


def read_password(file: Path | None, variable: str, option: str) -> str:
    """A password from a file, a variable or the terminal. Raises click.UsageError if there is none of them."""
    if file is not None:
        refuse_missing(file)
        return file.read_text().rstrip("\n")
    known = os.environ.get(variable)
    if known is None and not sys.stdin.isatty():
        raise click.UsageError(f"A password is required: {option} or {variable}.", click.get_current_context())
    return known if known is not None else click.prompt("Password", hide_input=True, err=True)


def watch_client(access: WatchedAccess, show: "Callable[[Client], int]") -> int:
    """Like `with_client`; with --watch again and again, also after errors, because a server may come back."""
    if not access["watch"]:
        return with_client(access, show)
    security = security_of_connection(access)

    def show_again_and_again() -> None:
        while True:
            click.clear()
            click.secho(f"every {access['interval']:g} s; now {datetime.now(UTC):%H:%M:%S} UTC\n", dim=True)
            _with_client(access, security, show)
            sys.stdout.flush()
            time.sleep(access["interval"])

    return until_stopped(show_again_and_again)

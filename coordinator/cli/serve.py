"""`coordinator serve` and `coordinator ready`."""

import gc
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Unpack

import click
from click.core import ParameterSource

from coordinator.cli.client_options import SOURCE_PREFIX, access_to_source, security_of_connection, source_options
from coordinator.cli.command_line import Command, examples, fail, refused
from coordinator.cli.server_options import Sources, load_admin_config, load_config, server_options

if TYPE_CHECKING:
    from coordinator.config.settings import AdminConfig, ServerConfig

_log = logging.getLogger(__name__)

READY_WITHIN_S = 3.0
"""How long `ready` waits for a response."""
READY_AGAIN_S = 0.05
"""How long `ready --wait` waits between two requests."""


class _Options(Sources):
    """The values of the options of `serve`, beside those of `source_options`."""

    source: str | None
    from_members: str


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator serve",
        "coordinator serve --config coordinator.yaml --data-dir /var/lib/coordinator",
        "coordinator serve --listen 127.0.0.1:0 --set group.initial.rebalance.delay.ms=0",
        "coordinator serve --from kafka:9092 --data-dir forked",
        "coordinator serve --from /backup/kafka-logs --from-members keep --data-dir forked",
    ),
)
@server_options
@click.option(
    "--from",
    "source",
    metavar="FOLDER|HOST:PORT",
    help="Begin with a copy of the groups, offsets and topics of this data folder or server, without its records. The data"
    " folder must be empty.",
)
@click.option(
    "--from-members",
    type=click.Choice(("drop", "keep")),
    default="drop",
    show_default=True,
    help="drop: the groups of the copy have no members; keep: they wait for them, as after a failover.",
)
@source_options
def serve(**options: Unpack[_Options]) -> int:
    """Run the server until SIGTERM.

    With --from it is a fork of another server: a production group can be tried in a test. Nothing is written to the source.
    """
    gc.disable()  # a start makes objects that stay; the server enables it when it is ready
    try:
        return _serve(options)
    finally:
        gc.enable()


def _serve(options: _Options) -> int:
    # The reported start-up time includes that of the interpreter, which is almost only CPU time.
    began_s = time.monotonic() - time.process_time()
    from coordinator.config.load import ConfigError, ineffective_variables

    try:
        config = load_config(options).config
    except ConfigError as error:
        return refused(error)
    if options["source"] is None:
        _refuse_source_options()
    else:
        code = _fork(options["source"], options, config)
        if code:
            return code
    from coordinator.world.log_lines import log_to_stderr

    log_to_stderr()
    ignored = ineffective_variables(os.environ)
    if ignored:
        _log.warning("event=variables_without_effect" + " variable=%s" * len(ignored), *ignored)
    # Not before the configuration has been checked.
    if config.shared.workers:
        from coordinator.cluster.supervisor import supervision

        return supervision.run(config, began_s)
    from coordinator.server import process

    if config.shared.journal:
        from coordinator.cluster.start import join

        return process.run(config, began_s, join)
    return process.run(config, began_s)


def _refuse_source_options() -> None:
    """Raises click.UsageError if there are options for a source and there is none."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name.startswith("from_") and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} requires --from.", context)


def _fork(source: str, options: _Options, config: "ServerConfig") -> int:
    """Makes the data folder. Returns the exit code if that fails, else 0."""
    from coordinator.operations.fork import ForkFailed, run

    access = access_to_source(options)
    security = security_of_connection(access, SOURCE_PREFIX)
    keep_members = options["from_members"] == "keep"
    # A folder that is half made is removed also if somebody stops this process.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    gc.enable()
    try:
        summary = run.run(source, config, keep_members=keep_members, timeout_s=access["timeout"], security=security)
    except ForkFailed as error:
        return fail(error)
    finally:
        gc.disable()
        signal.signal(signal.SIGTERM, before)
    for line in summary.lines():
        click.echo(line, err=True)
    return 0


@click.command(
    cls=Command,
    epilog=examples("coordinator ready --config coordinator.yaml", "coordinator ready --wait 30 && ./my-tests"),
)
@server_options
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0,
    metavar="SECONDS",
    help="Ask again until the server is ready or this time is over. Default: ask once.",
)
def ready(wait_s: float, **sources: Unpack[Sources]) -> int:
    """Request /health/ready from the server that `serve` runs with the same settings. Exit code 0: it is ready."""
    from coordinator.config.load import ConfigError

    try:
        admin = load_admin_config(sources)
    except ConfigError as error:
        return refused(error)
    from http.client import HTTPException

    from coordinator.config.settings import joined

    until_s = time.monotonic() + wait_s
    while True:
        is_last = time.monotonic() >= until_s
        try:
            status, text = _ask_ready(admin)
        except (OSError, HTTPException) as error:
            if is_last:
                return fail(f"{joined(admin.host, admin.port)}: {error}")
        else:
            if is_last or status == 200:
                print(text)
                return 0 if status == 200 else 1
        time.sleep(READY_AGAIN_S)


def _ask_ready(admin: "AdminConfig") -> tuple[int, str]:
    """The status and the body of /health/ready. Raises OSError and HTTPException."""
    import ssl
    from http.client import HTTPConnection, HTTPSConnection

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)  # noqa: S104 - the address that it listens on
    connection: HTTPConnection
    if admin.admin_ssl_keystore_location:
        # The server is on this machine, and its certificate names the machine as others know it.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(host, admin.port, timeout=READY_WITHIN_S, context=context)
    else:
        connection = HTTPConnection(host, admin.port, timeout=READY_WITHIN_S)
    try:
        connection.request("GET", "/health/ready")
        answer = connection.getresponse()
        return answer.status, " ".join(answer.read().decode("utf-8", "replace").split())
    finally:
        connection.close()

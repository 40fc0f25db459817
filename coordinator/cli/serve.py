"""`coordinator serve` and `coordinator ready`."""

import gc
import logging
import os
import sys
import time
from typing import Unpack

import click

from coordinator.cli.command_line import Command, examples, fail, refused
from coordinator.cli.server_options import Sources, load_admin_config, load_config, server_options

_log = logging.getLogger(__name__)

READY_WITHIN_S = 3.0
"""How long `ready` waits for a response."""


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator serve",
        "coordinator serve --config coordinator.yaml --data-dir /var/lib/coordinator",
        "coordinator serve --listen 127.0.0.1:0 --set group.initial.rebalance.delay.ms=0",
    ),
)
@server_options
def serve(**sources: Unpack[Sources]) -> int:
    """Run the server until SIGTERM."""
    gc.disable()  # a start makes objects that stay; the server enables it when it is ready
    try:
        return _serve(sources)
    finally:
        gc.enable()


def _serve(sources: Sources) -> int:
    # The reported start-up time includes that of the interpreter, which is almost only CPU time.
    began_s = time.monotonic() - time.process_time()
    from coordinator.config.load import ConfigError, ineffective_variables

    try:
        config = load_config(sources).config
    except ConfigError as error:
        return refused(error)
    from coordinator.world.log_lines import KeyValueFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    ignored = ineffective_variables(os.environ)
    if ignored:
        _log.warning("event=variables_without_effect" + " variable=%s" * len(ignored), *ignored)
    from coordinator.server import process  # not before the configuration has been checked

    return process.run(config, began_s)


@click.command(cls=Command, epilog=examples("coordinator ready --config coordinator.yaml"))
@server_options
def ready(**sources: Unpack[Sources]) -> int:
    """Request /health/ready from the server that `serve` runs with the same settings. Exit code 0: it is ready."""
    from coordinator.config.load import ConfigError
    from coordinator.config.settings import joined

    try:
        admin = load_admin_config(sources)
    except ConfigError as error:
        return refused(error)
    from http.client import HTTPConnection, HTTPException

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)  # noqa: S104 - the address that it listens on
    connection = HTTPConnection(host, admin.port, timeout=READY_WITHIN_S)
    try:
        connection.request("GET", "/health/ready")
        answer = connection.getresponse()
        text = " ".join(answer.read().decode("utf-8", "replace").split())
    except (OSError, HTTPException) as error:
        return fail(f"{joined(host, admin.port)}: {error}")
    finally:
        connection.close()
    print(text)
    return 0 if answer.status == 200 else 1

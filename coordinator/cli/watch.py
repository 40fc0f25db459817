"""`coordinator watch`."""

import gc
import time
from pathlib import Path
from typing import Unpack

import click

from coordinator.cli.client_options import ConnectionAccess, connection_options, security_of_connection
from coordinator.cli.command_line import Command, combined, examples, refused


class _Options(ConnectionAccess):
    """The values of the options of `watch`."""

    bootstrap: str
    config: Path | None
    admin: str | None
    data_dir: str
    assignments: tuple[str, ...]
    history: float


@click.command(
    cls=Command,
    epilog=examples(
        "coordinator watch kafka:9092",
        "coordinator watch kafka-1:9092,kafka-2:9092 --admin 0.0.0.0:8080 --data-dir /var/lib/watch",
        "coordinator watch kafka:9093 --tls-ca ca.pem --sasl SCRAM-SHA-512 --user watcher --password-file password",
    ),
)
@click.argument("bootstrap", metavar="HOST:PORT,...")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="A YAML file with `key: value` lines.")
@click.option("--admin", metavar="HOST:PORT", help="The address of the page and the API (port 0: any free port).")
@click.option(
    "--data-dir",
    default="watch",
    show_default=True,
    metavar="DIR",
    help="The folder for the events; nothing else may use it.",
)
@click.option("--set", "assignments", metavar="key=value", multiple=True, help="Change one setting; can be repeated.")
@click.option(
    "--history",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="MINUTES",
    help="With a new folder: how far back events begin, as far as the cluster's log has them.",
)
@combined(*connection_options())
def watch(**options: Unpack[_Options]) -> int:
    """Show the groups of a Kafka cluster: the page, why groups rebalance, lag, metrics, events. Reads, and changes nothing.

    It reads __consumer_offsets and __transaction_state as a consumer without a group. The account needs READ and DESCRIBE on
    these topics, and DESCRIBE on the topics whose lag is to be shown.
    """
    gc.disable()  # a start makes objects that stay; the server enables it when it is ready
    try:
        return _watch(options)
    finally:
        gc.enable()


def _watch(options: _Options) -> int:
    began_s = time.monotonic() - time.process_time()
    import os

    from coordinator.config.load import ConfigError, load
    from coordinator.operations.client import OperationFailed, parse_address

    flags = {"admin": options["admin"], "data_dir": options["data_dir"]}
    try:
        given = {name: text for name, text in flags.items() if text is not None}
        config = load(options["config"], options["assignments"], given, os.environ)
        bootstrap = tuple(parse_address(each) for each in options["bootstrap"].split(","))
    except (ConfigError, OperationFailed) as error:
        return refused(error)
    security = security_of_connection(options)
    from coordinator.watch.process import Watched, run
    from coordinator.world.log_lines import log_to_stderr

    log_to_stderr()
    return run(config, Watched(bootstrap, security, round(options["history"] * 60_000)), began_s)

"""`coordinator control brokers`: the brokers of a server that is several."""

import click

from coordinator.cli.client_options import json_option
from coordinator.cli.command_line import Group, exactly_one, examples
from coordinator_testing.cli.control_options import admin_option, show_done, with_control

_broker_id = click.argument("broker_id", type=int)


@click.group(cls=Group)
def brokers() -> None:
    """Take brokers of `serve --nodes` down and up, and move what they lead."""


@brokers.command("list", epilog=examples("coordinator control brokers list"))
@admin_option
@json_option
def list_(admin: str, as_json: bool) -> int:
    """Show the brokers, whether they are up, and how many partitions each leads."""
    from coordinator_testing.cli.control_shown import show_brokers

    return with_control(admin, lambda control: show_brokers(control.brokers(), as_json))


@brokers.command(epilog=examples("coordinator control brokers down 2"))
@_broker_id
@admin_option
@json_option
def down(broker_id: int, admin: str, as_json: bool) -> int:
    """End a broker as a crash does: its connections close, and the next replica in sync leads what it led."""
    return show_done(admin, as_json, lambda control: control.broker(broker_id).down())


@brokers.command(epilog=examples("coordinator control brokers up 2"))
@_broker_id
@admin_option
@json_option
def up(broker_id: int, admin: str, as_json: bool) -> int:
    """Start a broker again, at its addresses. Leaders stay until they are elected or moved."""
    return show_done(admin, as_json, lambda control: control.broker(broker_id).up())


@brokers.command(
    epilog=examples(
        "coordinator control brokers lead 2 --topic orders --partition 0",
        "coordinator control brokers lead 2 --topic orders --partition 0 --lose 10",
        "coordinator control brokers lead 2 --group billing",
        "coordinator control brokers lead 2 --controller",
    )
)
@_broker_id
@click.option("--topic", metavar="NAME", help="The topic of a partition.")
@click.option("--partition", type=int, metavar="N", help="With --topic: the partition.")
@click.option(
    "--lose",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --topic: the last N records, and the others of their batch, are lost.",
)
@click.option("--group", metavar="ID", help="Coordinate this group and the others of its partition.")
@click.option(
    "--transactional-id", metavar="ID", help="Coordinate this transactional id and the others of its partition."
)
@click.option("--controller", is_flag=True, default=None, help="Be the controller that Metadata names.")
@admin_option
@json_option
def lead(
    broker_id: int,
    topic: str | None,
    partition: int | None,
    lose: int | None,
    group: str | None,
    transactional_id: str | None,
    controller: bool | None,
    admin: str,
    as_json: bool,
) -> int:
    """Move the leader of a partition, a coordinator or the controller to a broker that is up."""
    exactly_one(topic=topic, group=group, transactional_id=transactional_id, controller=controller)
    if (topic is None) is not (partition is None):
        raise click.UsageError("--topic and --partition belong together.", click.get_current_context())
    if lose is not None and topic is None:
        raise click.UsageError("--lose belongs to --topic.", click.get_current_context())
    return show_done(
        admin,
        as_json,
        lambda control: control.broker(broker_id).lead(
            topic=topic,
            partition=partition,
            group=group,
            transactional_id=transactional_id,
            controller=controller,
            lose=lose,
        ),
    )

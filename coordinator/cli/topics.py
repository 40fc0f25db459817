"""`coordinator topics`: shows, creates and deletes topics over the Kafka protocol, on this server or a real Kafka."""

from typing import TYPE_CHECKING, Unpack

import click

from coordinator.cli.client_options import Access, client_options, json_option, with_client
from coordinator.cli.command_line import Group, examples

if TYPE_CHECKING:
    from coordinator.operations.client import Client

_topics = click.argument("topic", nargs=-1, required=True)


@click.group(cls=Group)
def topics() -> None:
    """Show, create and delete topics over the Kafka protocol, on this server or a real Kafka."""


@topics.command("list", epilog=examples("coordinator topics list", "coordinator topics list --internal --json"))
@click.option("--internal", is_flag=True, help="Also internal topics, such as __consumer_offsets.")
@client_options
@json_option
def topics_list(internal: bool, as_json: bool, **access: Unpack[Access]) -> int:
    """List all topics with the number of their partitions."""
    from coordinator.operations import topics_shown

    return with_client(access, lambda client: topics_shown.show_list(client, internal=internal, as_json=as_json))


@topics.command(
    epilog=examples(
        "coordinator topics create orders --partitions 6",
        "coordinator topics create orders --config cleanup.policy=compact --if-not-exists",
    )
)
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="How many; default: the server's.")
@click.option("--replicas", type=click.IntRange(min=1), metavar="N", help="Replication factor; default: the server's.")
@click.option("--config", "configs", multiple=True, metavar="key=value", help="A config of the topic; can be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists, whatever its partitions are.")
@client_options
@json_option
def create(
    topic: str,
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    as_json: bool,
    **access: Unpack[Access],
) -> int:
    """Create a topic."""
    from coordinator.operations import topics_shown

    def show(client: "Client") -> int:
        return topics_shown.show_creation(
            client, topic, partitions or -1, replicas or -1, configs, if_not_exists=if_not_exists, as_json=as_json
        )

    return with_client(access, show)


@topics.command(epilog=examples("coordinator topics describe orders events"))
@_topics
@client_options
@json_option
def describe(topic: tuple[str, ...], as_json: bool, **access: Unpack[Access]) -> int:
    """Show partitions, offsets and configs of topics."""
    from coordinator.operations import topics_shown

    return with_client(access, lambda client: topics_shown.show_description(client, topic, as_json=as_json))


@topics.command(epilog=examples("coordinator topics delete orders"))
@_topics
@client_options
@json_option
def delete(topic: tuple[str, ...], as_json: bool, **access: Unpack[Access]) -> int:
    """Delete topics and their records."""
    from coordinator.operations import topics_shown

    return with_client(access, lambda client: topics_shown.show_deletion(client, topic, as_json=as_json))

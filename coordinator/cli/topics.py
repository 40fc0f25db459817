"""`coordinator topics`: topics and their records over the Kafka protocol, on this server or a real Kafka."""

from typing import TYPE_CHECKING, Unpack

import click

from coordinator.cli.client_options import Access, client_options, json_option, with_client
from coordinator.cli.command_line import Group, examples, until_stopped

if TYPE_CHECKING:
    from coordinator.operations.client import Client

_topics = click.argument("topic", nargs=-1, required=True)
_key_separator = click.option(
    "--key-separator", metavar="TEXT", help="A line has a key, this text and a value; default: the value only."
)


@click.group(cls=Group)
def topics() -> None:
    """Show, create, change and delete topics, and write and read records, on this server or a real Kafka."""


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


@topics.command(
    epilog=examples(
        "coordinator topics alter orders --config retention.ms=60000 --unset cleanup.policy",
        "coordinator topics alter orders --partitions 12",
    )
)
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="The new number of partitions.")
@click.option("--config", "configs", multiple=True, metavar="key=value", help="Set a config; can be repeated.")
@click.option("--unset", multiple=True, metavar="KEY", help="Give a config back its default; can be repeated.")
@client_options
def alter(
    topic: str, partitions: int | None, configs: tuple[str, ...], unset: tuple[str, ...], **access: Unpack[Access]
) -> int:
    """Change the configs of a topic, or add partitions to it."""
    from coordinator.operations import topics_shown

    if partitions is None and not configs and not unset:
        raise click.UsageError("One of --partitions, --config and --unset is required.", click.get_current_context())
    return with_client(access, lambda client: topics_shown.show_alteration(client, topic, partitions, configs, unset))


@topics.command(epilog=examples("coordinator topics delete orders"))
@_topics
@client_options
@json_option
def delete(topic: tuple[str, ...], as_json: bool, **access: Unpack[Access]) -> int:
    """Delete topics and their records."""
    from coordinator.operations import topics_shown

    return with_client(access, lambda client: topics_shown.show_deletion(client, topic, as_json=as_json))


@topics.command(
    epilog=examples(
        "echo hello | coordinator topics produce orders",
        "coordinator topics produce orders --key-separator : < orders.txt",
        "coordinator topics produce orders --json < orders.jsonl",
    )
)
@click.argument("topic")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Write to this partition only.")
@_key_separator
@click.option("--json", "from_json", is_flag=True, help="A line is a JSON object: key, value, headers.")
@client_options
def produce(
    topic: str, partition: int | None, key_separator: str | None, from_json: bool, **access: Unpack[Access]
) -> int:
    """Write the lines of the standard input to a topic, as records. The key chooses the partition as in Java's producer."""
    from coordinator.operations import records_shown

    def show(client: "Client") -> int:
        return records_shown.show_production(
            client, topic, 0, partition=partition, key_separator=key_separator, from_json=from_json
        )

    return with_client(access, show)


@topics.command(
    epilog=examples(
        "coordinator topics consume orders",
        "coordinator topics consume orders --from-beginning --until-end --json",
        "coordinator topics consume orders --group billing --max 10",
    )
)
@_topics
@click.option("--group", "group_id", metavar="NAME", help="Join this group (KIP-848) and commit what was printed.")
@click.option(
    "--from-beginning", is_flag=True, help="Without a committed offset: start at the first record, not at the end."
)
@click.option("--until-end", is_flag=True, help="Stop after the records that the topics have now.")
@click.option("--max", "count_max", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@_key_separator
@json_option
@client_options
def consume(
    topic: tuple[str, ...],
    group_id: str | None,
    from_beginning: bool,
    until_end: bool,
    count_max: int | None,
    key_separator: str | None,
    as_json: bool,
    **access: Unpack[Access],
) -> int:
    """Print the records of topics, a line each, until Ctrl-C. With --json also keys, headers and offsets."""
    from coordinator.operations import records_shown

    def show(client: "Client") -> int:
        return records_shown.show_consumption(
            client,
            topic,
            group_id,
            from_beginning=from_beginning,
            until_end=until_end,
            count_max=count_max,
            key_separator=key_separator,
            as_json=as_json,
        )

    return until_stopped(lambda: with_client(access, show))

"""`coordinator topics ...`: prints the results of topics.py as tables or as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from coordinator.operations import topics
from coordinator.operations.client import Client, OperationFailed
from coordinator.operations.json_values import print_as, print_deletion, print_json, print_table
from coordinator.operations.topics import DescribedTopic


def show_list(client: Client, *, internal: bool, as_json: bool) -> int:
    """Prints all topics; those that the server keeps its own state in only with `internal`."""
    found = [topic for topic in topics.list_topics(client) if internal or not topic.internal]
    rows = [(topic.name, topic.partitions, topic.replicas) for topic in found]
    print_as(as_json, {"topics": [asdict(topic) for topic in found]}, ("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    return 0


def show_creation(
    client: Client,
    name: str,
    partitions: int,
    replicas: int,
    configs: Sequence[str],
    *,
    if_not_exists: bool,
    as_json: bool,
) -> int:
    """Creates a topic. Raises OperationFailed if it exists, unless that is allowed."""
    created = topics.create(client, name, partitions, replicas, _pairs(configs))
    if not created and not if_not_exists:
        raise OperationFailed(f"topic {name} exists already")
    if as_json:
        print_json({"topic": name, "created": created})
    else:
        print(f"topic {name} {'created' if created else 'exists already'}")
    return 0


def show_alteration(
    client: Client, name: str, partitions: int | None, configs: Sequence[str], unset: Sequence[str]
) -> int:
    """Changes a topic and says so."""
    topics.alter(client, name, partitions, _pairs(configs), unset)
    print(f"topic {name} altered")
    return 0


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise OperationFailed(f"--config {text}: allowed: key=value")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def show_description(client: Client, names: Sequence[str], *, as_json: bool) -> int:
    """Prints topics with their partitions and configs."""
    found = topics.describe(client, list(dict.fromkeys(names)))
    if as_json:
        print_json({"topics": [asdict(topic) for topic in found]})
        return 0
    for i, topic in enumerate(found):
        if i:
            print()
        _print_topic(topic)
    return 0


def _print_topic(topic: DescribedTopic) -> None:
    configs = " ".join(f"{key}={value}" for key, value in topic.configs.items())
    print_table(("TOPIC", "ID", "CONFIGS"), [(topic.name, topic.topic_id, configs or None)])
    print()
    print_table(
        ("PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "START", "END"),
        [
            (each.partition, each.leader, _nodes(each.replicas), _nodes(each.in_sync), each.start, each.end)
            for each in topic.partitions
        ],
    )


def _nodes(ids: Sequence[int]) -> str | None:
    return ",".join(map(str, ids)) or None


def show_deletion(client: Client, names: Sequence[str], *, as_json: bool) -> int:
    """Deletes topics. Returns 1 if one could not be deleted."""
    outcome = topics.delete(client, list(dict.fromkeys(names)))
    return print_deletion("topics", "topic", outcome, as_json=as_json)

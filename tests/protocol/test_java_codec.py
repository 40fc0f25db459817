"""Kafka's own message classes read our bytes and write the same ones."""

import subprocess
from pathlib import Path
from random import Random

import pytest

from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import Message
from tests.protocol.message_making import EVERY_VERSION, SCHEMAS, make_message
from tests.support.java_support import KAFKA_VERSION, compile_java, java, kafka_classpath

CODEC = Codec.of()
MESSAGES_EACH = 3
ARTIFACTS = [
    f"org.apache.kafka:{name}:{KAFKA_VERSION}"
    for name in (
        "kafka-clients",
        "kafka-group-coordinator",
        "kafka-share-coordinator",
        "kafka-transaction-coordinator",
        "kafka-metadata",
    )
]
OUR_OWN_SINCE = 1000
"""The types of the event log's records, which Kafka does not have."""
METADATA_RECORDS = frozenset(
    {"TopicRecord", "PartitionRecord", "ConfigRecord", "ProducerIdsRecord", "RemoveTopicRecord"}
    | {"UserScramCredentialRecord", "RemoveUserScramCredentialRecord", "ClientQuotaRecord"}
    | {"AccessControlEntryRecord", "RemoveAccessControlEntryRecord", "FeatureLevelRecord"}
    | {"DelegationTokenRecord", "RemoveDelegationTokenRecord"}
)


def java_class(name: str) -> str:
    if name in METADATA_RECORDS:
        return f"org.apache.kafka.common.metadata.{name}"
    if name.startswith("TransactionLog"):
        return f"org.apache.kafka.coordinator.transaction.generated.{name}"
    if name.startswith(("ShareSnapshot", "ShareUpdate")):
        return f"org.apache.kafka.coordinator.share.generated.{name}"
    match SCHEMAS[name].kind:
        case "request" | "response" | "header":
            return f"org.apache.kafka.common.message.{name}Data"
        case "data":
            return f"org.apache.kafka.common.message.{name}"
        case _:
            return f"org.apache.kafka.coordinator.group.generated.{name}"


def make_keys_differ(message: Message) -> None:
    """Kafka keeps some arrays as sets, so no two elements may have the same first field."""
    for field in message.__slots__:
        value = getattr(message, field)
        for index, element in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(element, Message):
                make_keys_differ(element)
                key = next(iter(element.__slots__))
                if isinstance(value, list) and isinstance(getattr(element, key), str):
                    setattr(element, key, f"{getattr(element, key)}{index}")
                elif isinstance(value, list) and type(getattr(element, key)) is int:
                    setattr(element, key, index)


@pytest.mark.java
def test_kafkas_own_classes_read_and_write_the_same_bytes():
    """Every message in every version, our tagged fields included: Kafka carries what it does not know."""
    classpath = compile_java(Path(__file__).parent / "java" / "Reencode.java", kafka_classpath(ARTIFACTS))
    random = Random(44)
    asked = []
    for name, version in EVERY_VERSION:
        if (SCHEMAS[name].api_key or 0) >= OUR_OWN_SINCE:
            continue
        for _ in range(MESSAGES_EACH):
            message = make_message(SCHEMAS[name], version, random)
            make_keys_differ(message)
            asked.append((name, version, CODEC.encoder(name, version)(message).hex()))
    lines = "".join(f"{java_class(name)} {version} {data}\n" for name, version, data in asked)
    command = java(classpath, "Reencode")
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=120)
    answers = done.stdout.splitlines()
    assert len(answers) == len(asked)
    differing = [(*ask, answer) for ask, answer in zip(asked, answers, strict=True) if ask[2] != answer]
    assert differing == []

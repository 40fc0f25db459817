"""Other people's codecs read our bytes and write the same ones: kio (generated from Kafka 4's definitions) and kafka-python.

Both know only some messages and versions, and neither can hold every value: kio makes times of milliseconds, and both drop
or know our own fields only as unknown tags. So the messages here leave our fields out and keep to values that they can hold.
"""

import importlib
import pkgutil
import warnings
from random import Random
from typing import Any

import pytest
from kio.index import UnknownEntity, load_entity_module
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import Message
from coordinator.protocol.schema import attribute_name
from tests.protocol.message_making import EVERY_MESSAGE, SCHEMAS, make_message

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its import uses what Python 3.11 deprecates
    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage

    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if module.name.split(".")[2] in {"admin", "consumer", "metadata", "producer"}:
            importlib.import_module(module.name)

CODEC = Codec.of()
MESSAGES_EACH = 4
KAFKA_PYTHON = {cls.__name__: cls for cls in ApiMessage.__subclasses__()}


EXTENSIONS = {
    "JoinGroupRequest": ("generation_id",),
    "SyncGroupRequest": ("resync", "error_code", "error_message"),
    "SyncGroupResponse": ("resynced", "error_message"),
}
"""Tagged fields of ours, which other codecs do not know."""


def comparable_message(name: str, version: int, random: Random) -> Message:
    """A message without our own fields, and with times that a date can represent."""
    message = make_message(SCHEMAS[name], version, random)
    _tame(message)
    for field in EXTENSIONS.get(name, ()):
        setattr(message, field, getattr(type(message)(), field))
    if name == "ApiVersionsResponse":
        message.error_code = 0  # kafka-python reads an error as version 0, as Kafka sends UNSUPPORTED_VERSION
    return message


def _tame(message: Message) -> None:
    for field in message.__slots__:
        value = getattr(message, field)
        if isinstance(value, Message):
            _tame(value)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, Message):
                    _tame(element)
        elif isinstance(value, int) and field.endswith(("_ms", "timestamp")):
            setattr(message, field, value % 1_000_000)
        elif field == "error_code" or field.endswith("_error_code"):
            setattr(message, field, value % 100)


def kio_codec(name: str, version: int) -> tuple[Any, Any] | None:
    """Its reader and writer, where kio knows the message."""
    for suffix, kind in (("Request", EntityType.request), ("Response", EntityType.response), ("", EntityType.data)):
        if suffix and not name.endswith(suffix):
            continue
        module_name = attribute_name(name.removesuffix(suffix))
        if module_name not in schema_name_map:
            return None
        try:
            module = load_entity_module(module_name, version, kind)
        except UnknownEntity:
            return None
        entity = getattr(module, name)
        return entity_reader(entity), entity_writer(entity)
    return None


def test_kio_and_kafka_python_know_most_messages():
    """The comparison below must not shrink unnoticed."""
    known = [(name, version) for name in EVERY_MESSAGE for version in SCHEMAS[name].versions]
    assert sum(kio_codec(*which) is not None for which in known) > 250
    assert sum(name in KAFKA_PYTHON for name in EVERY_MESSAGE) > 50


@pytest.mark.parametrize("name", [name for name in EVERY_MESSAGE if kio_codec(name, SCHEMAS[name].versions.highest)])
def test_kio_reads_and_writes_the_same_bytes(name: str):
    """In every version that it knows."""
    import io

    random = Random(name)
    for version in CODEC.versions(name):
        codec = kio_codec(name, version)
        for _ in range(MESSAGES_EACH if codec else 0):
            encoded = CODEC.encoder(name, version)(comparable_message(name, version, random))
            entity, size = codec[0](encoded, 0)
            assert size == len(encoded)
            output = io.BytesIO()
            codec[1](output, entity)
            assert output.getvalue() == encoded, (version, entity)


@pytest.mark.parametrize("name", [name for name in EVERY_MESSAGE if name in KAFKA_PYTHON])
def test_kafka_python_reads_and_writes_the_same_bytes(name: str):
    """In every version that it knows."""
    other = KAFKA_PYTHON[name]
    random = Random(name)
    for version in CODEC.versions(name):
        for _ in range(MESSAGES_EACH if version <= other.max_version else 0):
            encoded = CODEC.encoder(name, version)(comparable_message(name, version, random))
            decoded = other.decode(encoded, version=version)
            decoded._header = None  # its decoder leaves it unset, its encoder asks for it
            assert decoded.encode(version=version) == encoded, (version, decoded)

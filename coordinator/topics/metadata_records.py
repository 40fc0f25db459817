"""The records of the metadata log, in the format of Kafka's `__cluster_metadata`.

A record has no key. Its value is a frame: frame version 1, record type and version, each an unsigned varint, then the
message. So `kafka-dump-log.sh --cluster-metadata-decoder` can read this log. Other record types are skipped: they
describe brokers and their registration, which do not exist on this server.
"""

from coordinator.log.record import raw_varint
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    Message,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

_FRAME_VERSION = 1
_KINDS = (
    TopicRecord, PartitionRecord, ConfigRecord, RemoveTopicRecord, ProducerIdsRecord, UserScramCredentialRecord,
    RemoveUserScramCredentialRecord, AccessControlEntryRecord, RemoveAccessControlEntryRecord, ClientQuotaRecord,
    DelegationTokenRecord, RemoveDelegationTokenRecord, FeatureLevelRecord,
)  # fmt: skip
NAMES = {kind.API_KEY: kind.NAME for kind in _KINDS}
"""Record type -> name of the message."""
_VERSION_WRITTEN = {PartitionRecord.NAME: 1}

TOPIC_RESOURCE = 2
"""ConfigRecord.resource_type of a topic."""
NO_DIRECTORY = bytes(16)


def removal(topic_id: bytes) -> Message:
    """The record that deletes a topic."""
    return RemoveTopicRecord(topic_id=topic_id)


def encode(message: Message) -> bytes:
    """The value of a record."""
    assert message.API_KEY is not None
    version = _VERSION_WRITTEN.get(message.NAME, 0)
    return bytes((_FRAME_VERSION, message.API_KEY, version)) + Codec.of().encoder(message.NAME, version)(message)


def decode(value: bytes) -> Message | None:
    """The message of a record, or None for a record type that this server does not use. Raises DecodeError."""
    try:
        frame_version, position = raw_varint(value, 0)
        api_key, position = raw_varint(value, position)
        version, position = raw_varint(value, position)
    except (IndexError, ValueError) as error:
        raise DecodeError(f"a metadata record has no valid frame: {error}") from error
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"metadata record frame version {frame_version}; this server reads {_FRAME_VERSION}")
    name = NAMES.get(api_key)
    if name is None:
        return None
    first, last = messages.message_class(name).VERSIONS
    if not first <= version <= last:
        raise DecodeError(f"{name} version {version}; this server reads {first} to {last}")
    return Codec.of().decoder(name, version)(value, position)[0]

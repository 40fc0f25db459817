"""Encodes and decodes coordinator records (Kafka's CoordinatorRecordSerde).

A key is an int16 record type and the key message, which is never flexible. A value is an int16 version and the value message.
The record type is the apiKey of the key message; its value message has the same name, with Value for Key.
"""

from collections.abc import Callable

from coordinator.protocol import messages
from coordinator.protocol.codec import Codec, DecodeError, Decoder
from coordinator.protocol.messages import Message
from coordinator.runtime.result import Record

_SHORT = 2
_Reader = tuple[str, Decoder, dict[bytes, tuple[int, Decoder]]]
"""The name and decoder of the key message, and: first two bytes of a value -> version and decoder."""


class UnknownRecordVersion(Exception):
    """A value has a version that this server does not know. Its meaning must not be guessed, so the load stops."""


class Serde:
    """Encodes and decodes the records of one kind of log. `key_names`: the key messages that occur in it."""

    def __init__(self, codec: Codec, key_names: tuple[str, ...]) -> None:
        self._codec = codec
        self._keys = {getattr(messages, name).API_KEY: name for name in key_names}
        self._key_encoders: dict[type[Message], tuple[bytes, Callable[[Message], bytes]]] = {}
        self._value_encoders: dict[int, dict[type[Message], tuple[bytes, Callable[[Message], bytes]]]] = {}
        """Version -> class -> encoder. Two look-ups are faster than hashing a pair."""
        self._readers: dict[bytes, _Reader] = {}
        """First two bytes of a key -> reader. A load looks this up for every record."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """`(key, value)`; the value of a tombstone is None."""
        key, value, version = record
        entry = self._key_encoders.get(type(key))
        if entry is None:
            record_type = key.API_KEY
            assert record_type in self._keys, f"{key.NAME} does not belong in this log"
            assert record_type is not None
            entry = (record_type.to_bytes(_SHORT, "big"), self._codec.encoder(key.NAME, 0))
            self._key_encoders[type(key)] = entry
        key_bytes = entry[0] + entry[1](key)
        if value is None:
            return key_bytes, None
        encoders = self._value_encoders.get(version)
        if encoders is None:
            encoders = self._value_encoders[version] = {}
        entry = encoders.get(type(value))
        if entry is None:
            entry = (version.to_bytes(_SHORT, "big"), self._codec.encoder(value.NAME, version))
            encoders[type(value)] = entry
        return key_bytes, entry[0] + entry[1](value)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Returns the record, or None for an unknown record type, which Kafka skips too.

        Raises DecodeError for damaged bytes and UnknownRecordVersion for a known type in an unknown version.
        """
        reader = self._readers.get(key[:_SHORT])
        if reader is None:
            reader = self._reader(key)
            if reader is None:
                return None
        name, decode_key, value_decoders = reader
        key_message, _ = decode_key(key, _SHORT)
        if value is None:
            return Record(key_message, None)
        entry = value_decoders.get(value[:_SHORT])
        if entry is None:
            entry = value_decoders[value[:_SHORT]] = self._value_reader(name, value)
        version, decode_value = entry
        value_message, _ = decode_value(value, _SHORT)
        return Record(key_message, value_message, version)

    def _reader(self, key: bytes) -> _Reader | None:
        if len(key) < _SHORT:
            raise DecodeError("a coordinator record's key has at least two bytes")
        name = self._keys.get(int.from_bytes(key[:_SHORT], "big", signed=True))
        if name is None:
            return None
        reader = self._readers[key[:_SHORT]] = (name, self._codec.decoder(name, 0), {})
        return reader

    def _value_reader(self, key_name: str, value: bytes) -> tuple[int, Decoder]:
        if len(value) < _SHORT:
            raise DecodeError(f"the value of {key_name} has no version")
        version = int.from_bytes(value[:_SHORT], "big", signed=True)
        name = key_name.removesuffix("Key") + "Value"
        first, last = getattr(messages, name).VERSIONS
        if not first <= version <= last:
            raise UnknownRecordVersion(f"{name} version {version}; this server reads {first} to {last}")
        return version, self._codec.decoder(name, version)

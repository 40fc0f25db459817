"""The package's entry point: bytes <-> messages, for one dialect.

A `Codec` makes the functions of a message and version on first use, and keeps them. Making all of them would take most of a
second and a hundred megabytes; a server uses a few dozen.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from coordinator.protocol.messages import Message, message_class
from coordinator.protocol.schema import Definition, SchemaFolder, Versions, definitions
from coordinator.protocol.wire import TEXT_SIZE_MAX, DecodeError, EncodeError

if TYPE_CHECKING:
    from coordinator.protocol.primitives import Body

__all__ = ["ELEMENTS_MAX", "TEXT_SIZE_MAX", "Codec", "DecodeError", "Decoder", "EncodeError", "Encoder", "PartsEncoder"]

ELEMENTS_MAX = 20_000
"""The most elements in all arrays of a client's message: an empty one costs its sender a byte, and us half a microsecond."""

MORE_ELEMENTS = {
    "ConsumerGroupHeartbeatRequest": 10,
    "StreamsGroupHeartbeatRequest": 10,
    "ConsumerProtocolSubscription": 10,
    "ConsumerProtocolAssignment": 10,
}
"""Messages that may have more elements, by factor. They list all partitions or tasks that a member owns, which may be a hundred
thousand, and a plain number costs a tenth of a structure."""

Decoder = Callable[[bytes, int], tuple[Message, int]]
Encoder = Callable[[Message], bytes]
PartsEncoder = Callable[[Message], list[bytes]]


class Codec:
    """The decoders and encoders of all messages, made on first use."""

    def __init__(self, schemas: SchemaFolder, elements_max: int = ELEMENTS_MAX) -> None:
        self.schemas = schemas
        self._elements_max = elements_max
        self._decoders: dict[tuple[str, int], Decoder] = {}
        self._encoders: dict[tuple[str, int], Encoder] = {}
        self._sources: dict[tuple[str, int], list[str]] = {}

    @staticmethod
    def of(dialect: str | None = None, elements_max: int = ELEMENTS_MAX) -> "Codec":
        """Returns the codec of a dialect, a folder in protocol_schemas/dialects; None stands for Kafka's own protocol."""
        return _codec(dialect, elements_max)

    def decoder(self, name: str, version: int) -> Decoder:
        """Returns `decode(buffer, position) -> (message, end)`, which raises DecodeError and nothing else.

        The caller decides about bytes behind `end` (Kafka ignores them in requests). Raises KeyError for a message that has no
        definition, SchemaError for a version that it does not have.
        """
        decoder = self._decoders.get((name, version))
        return self._compile(name, version)[0] if decoder is None else decoder

    def encoder(self, name: str, version: int) -> Encoder:
        """Returns `encode(message) -> bytes`, which raises EncodeError if the message has no form in that version."""
        encoder = self._encoders.get((name, version))
        return self._compile(name, version)[1] if encoder is None else encoder

    def parts_encoder(self, name: str, version: int) -> PartsEncoder:
        """Returns `encode(message) -> parts`: bytes to be sent one after the other, so that large values are not copied.

        For messages that have arrays; raises like `encoder`.
        """
        encode: Any = self.encoder(name, version)
        return partial(encode, joined=_parts)

    def is_flexible(self, name: str, version: int) -> bool:
        """Whether this version has compact sizes and tagged fields (KIP-482)."""
        return version in self.schemas.outline(name).flexible

    def versions(self, name: str) -> Versions:
        """The versions of a message in this dialect."""
        return self.schemas.outline(name).versions

    def definition(self, name: str) -> Definition:
        """The definition of a message."""
        return self.schemas[name]

    def declaration(self, name: str, version: int) -> "Body":
        """The `construct` declaration of a message: `.parse(data)` shows what a frame holds."""
        from coordinator.protocol.declare import declare  # noqa: PLC0415 - construct is slow to import

        return declare(self.schemas[name], version)

    def source(self, name: str, version: int) -> str:
        """The generated functions of a message as text."""
        self.decoder(name, version)
        return "\n\n".join(self._sources[name, version])

    def _compile(self, name: str, version: int) -> tuple[Decoder, Encoder]:
        from coordinator.protocol.compile import compile_decoder, compile_encoder  # noqa: PLC0415 - as above

        definition = self.schemas[name]
        body = self.declaration(name, version)
        top = message_class(name)
        classes = {structure: getattr(top, structure, top) for structure in definition.structures}
        is_limited = definition.kind in {"request", "data"}
        limit = self._elements_max * MORE_ELEMENTS.get(name, 1) if is_limited else None
        decoder, decoder_source = compile_decoder(body, name, version, classes, limit)
        encoder, encoder_source = compile_encoder(body, name, version, classes)
        self._decoders[name, version] = decoder
        self._encoders[name, version] = encoder
        self._sources[name, version] = [decoder_source, encoder_source]
        return decoder, encoder


def _parts(parts: list[bytes]) -> list[bytes]:
    return parts


@cache
def _codec(dialect: str | None, elements_max: int) -> Codec:
    return Codec(definitions(dialect), elements_max)

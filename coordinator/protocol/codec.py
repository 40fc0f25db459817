"""The package's entry point: bytes <-> messages, for one dialect.

A `Codec` makes the functions of a message and version on first use, and keeps them. Making all of them would take most of a
second and a hundred megabytes; a server uses a few dozen. Generating one takes a millisecond, and the generator some 30 to
import, so the code of each is kept on disk, too (`coordinator/world/code_cache.py`), from where it takes a twentieth of that.
"""

from collections.abc import Callable, Collection
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from coordinator.protocol.generated import Compiled, GeneratedSource, generator_digest, link, show_in_tracebacks
from coordinator.protocol.messages import Message, message_class
from coordinator.protocol.schema import Definition, SchemaFolder, Versions, definitions
from coordinator.protocol.wire import TEXT_SIZE_MAX, DecodeError, EncodeError
from coordinator.world.code_cache import CODE_CACHE, CodeCache

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

DECODE, ENCODE = "decode", "encode"
"""The names of the generated functions."""

Decoder = Callable[[bytes, int], tuple[Message, int]]
Encoder = Callable[[Message], bytes]
PartsEncoder = Callable[[Message], list[bytes]]


class Codec:
    """The decoders and encoders of all messages, made on first use."""

    def __init__(
        self, schemas: SchemaFolder, elements_max: int = ELEMENTS_MAX, code_cache: CodeCache = CODE_CACHE
    ) -> None:
        self.schemas = schemas
        self._elements_max = elements_max
        self._code_cache = code_cache
        self._decoders: dict[tuple[str, int], Decoder] = {}
        self._encoders: dict[tuple[str, int], Encoder] = {}

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
        """The generated functions of a message as text. Raises like `decoder`."""
        return "\n\n".join(source.text for source in self._generate(name, version).values())

    def store(self, name: str, version: int) -> bool:
        """Generates the code of a message and stores it in the cache, unless it is there: dialects share most messages.

        Returns False if there is no usable cache.
        """
        file, key = f"{name}-v{version}", self._cache_key(name, version)
        return self._code_cache.load(file, key) is not None or self._code_cache.store(
            file, key, self._compiled(name, version)
        )

    def _compile(self, name: str, version: int) -> tuple[Decoder, Encoder]:
        key = self._cache_key(name, version)
        cached = self._code_cache.load(f"{name}-v{version}", key)
        if cached is None:
            cached = self._compiled(name, version)
            self._code_cache.store(f"{name}-v{version}", key, cached)
        structures, compiled = cached
        top = message_class(name)
        classes = {structure: getattr(top, structure, top) for structure in structures}
        for function in compiled:
            show_in_tracebacks(_file_name(name, version, function), partial(self._text, name, version, function))
        decoder = self._decoders[name, version] = link(compiled[DECODE], DECODE, classes)
        encoder = self._encoders[name, version] = link(compiled[ENCODE], ENCODE, classes)
        return decoder, encoder

    def _compiled(self, name: str, version: int) -> tuple[Collection[str], dict[str, Compiled]]:
        """The names of a message's structures, and its functions by name."""
        generated = self._generate(name, version)
        compiled = {each: source.compiled(_file_name(name, version, each)) for each, source in generated.items()}
        return tuple(self.schemas[name].structures), compiled

    def _generate(self, name: str, version: int) -> dict[str, GeneratedSource]:
        from coordinator.protocol.compile import decoder_source, encoder_source  # noqa: PLC0415 - as above

        definition = self.schemas[name]
        body = self.declaration(name, version)
        limit = self._limit(name) if definition.kind in {"request", "data"} else None
        return {
            DECODE: decoder_source(body, name, version, definition.structures, limit),
            ENCODE: encoder_source(body, name, version, definition.structures),
        }

    def _text(self, name: str, version: int, function: str) -> str:
        return self._generate(name, version)[function].text

    def _limit(self, name: str) -> int:
        return self._elements_max * MORE_ELEMENTS.get(name, 1)

    def _cache_key(self, name: str, version: int) -> bytes:
        """Everything that the code of a message depends on."""
        settings = f"{name} {version} {self._limit(name)}"
        return b"\0".join((generator_digest(), settings.encode(), self.schemas.content(name)))


def _parts(parts: list[bytes]) -> list[bytes]:
    return parts


def _file_name(name: str, version: int, function: str) -> str:
    return f"protocol_schemas/{name}.json/v{version}/{function}.py"


@cache
def _codec(dialect: str | None, elements_max: int) -> Codec:
    return Codec(definitions(dialect), elements_max)

"""Functions from generated source: compiles it, links it with what it uses, and shows its lines in tracebacks.

`compile.py` writes the source of a decoder and an encoder. They are compiled to a value that `marshal` can write, so that
codec.py can keep it in a cache: a code object, and the names of the `struct` methods that it uses, such as `unpack_hi`. This
module does not need `construct`, whose import takes longer than linking a hundred functions.
"""

import linecache
import struct
import sys
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType
from typing import Any, NamedTuple

from coordinator.protocol import wire

Compiled = tuple[CodeType, tuple[str, ...]]
"""The code of a module with one function, and the names of the `struct` methods that it uses."""

_GENERATOR = ("class_specs", "codec", "compile", "declare", "generated", "messages", "primitives", "schema")
"""The modules that decide about generated code and what it is linked with."""

BOOL = "t"
"""Stands for `?`, the type code of a boolean, in the names of `struct` methods."""

_WIRE_NAMES = (
    "SHORT",
    "TEXTS",
    "COMPACT_TEXTS",
    "NULLABLE_COMPACT_TEXTS",
    "COMPACT",
    "NULLABLE_COMPACT",
    "PLAIN",
    "NULLABLE_PLAIN",
    "DecodeError",
    "EncodeError",
    "read_varint",
    "write_varint",
    "read_long_text",
    "read_long_bytes",
    "size_prefix",
    "skip_tags",
    "null_refused",
    "count_refused",
    "tag_refused",
    "absent_refused",
)
_COMMON = {
    "struct": struct,
    "new": object.__new__,
    "joined": b"".join,
    **{name: getattr(wire, name) for name in _WIRE_NAMES},
}
RESERVED = frozenset(_COMMON)
"""The globals of every generated function."""


class GeneratedSource(NamedTuple):
    """The source of one function, and the names of the `struct` methods that it uses."""

    text: str
    bound: tuple[str, ...]

    def compiled(self, file_name: str) -> Compiled:
        return compile(self.text, file_name, "exec", dont_inherit=True), self.bound


def link(compiled: Compiled, function: str, classes: Mapping[str, type]) -> Callable[..., Any]:
    """Returns the function of this name. It creates structures as instances of `classes`, by name."""
    code, bound = compiled
    namespace: dict[str, Any] = {**_COMMON, **classes, **{name: _struct_method(name) for name in bound}}
    exec(code, namespace)  # noqa: S102
    linked: Callable[..., Any] = namespace[function]
    return linked


def show_in_tracebacks(file_name: str, source: Callable[[], str]) -> None:
    """Makes tracebacks show the lines of generated source, which is made again when it is first needed."""
    linecache.cache[file_name] = (source,)


@cache
def _struct_method(name: str) -> Any:
    verb, _, written = name.partition("_")
    codes = written.replace(BOOL, "?")
    if codes.startswith("many_"):
        return wire.Many(verb, codes.removeprefix("many_"))
    packer = struct.Struct(">" + codes)
    return packer.pack if verb == "pack" else packer.unpack_from


@cache
def generator_digest() -> bytes:
    """The digest of what generates the code, and of the interpreter that compiles it."""
    interpreter = f"{sys.implementation.cache_tag} {sys.flags.optimize}"
    digest = blake2b(MAGIC_NUMBER + interpreter.encode())
    for module in _GENERATOR:
        spec = find_spec(f"{__package__}.{module}")
        assert spec is not None
        loader: Any = spec.loader
        digest.update(loader.get_data(spec.origin))  # bytecode, where an installation has no sources
    return digest.digest()

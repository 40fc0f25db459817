"""What the message classes are made of, kept between runs: a start makes two hundred of them, mostly by parsing definitions.

What a process has used is one entry of the code cache. Each specification in it has the digest of its definition in front, so a
definition that has changed is parsed again. The constructors of a message, which few processes need, are an entry of their own.
"""

from hashlib import blake2b
from types import CodeType

from coordinator.protocol.generated import generator_digest
from coordinator.protocol.schema import Definition, Fresh, SchemaFolder, Structure
from coordinator.world.code_cache import CODE_CACHE, CodeCache

StructureSpec = tuple[tuple[str, ...], str]
"""The attributes of a structure in wire order, and the source of its constructor, in which `TOP` is the message's class."""
ClassSpec = tuple[int | None, tuple[int, int], dict[str, StructureSpec]]
"""The API key (or record type) of a message, its first and last version, and its structures by name. `marshal` can write it."""

_ENTRY = "classes"
_DIGEST_BYTES = 16


class ClassSpecs:
    """The specifications of one folder's messages."""

    def __init__(self, schemas: SchemaFolder, code_cache: CodeCache = CODE_CACHE) -> None:
        self._schemas = schemas
        self._code_cache = code_cache
        self._known: dict[str, tuple[bytes, ClassSpec]] = code_cache.load(_ENTRY, generator_digest()) or {}
        """Message -> the digest of its definition, and its specification."""
        self._is_stored = True

    def __getitem__(self, name: str) -> ClassSpec:
        """Raises KeyError if there is no such message, SchemaError if its definition is invalid."""
        digest = blake2b(self._schemas.content(name), digest_size=_DIGEST_BYTES).digest()
        known = self._known.get(name)
        if known is None or known[0] != digest:
            known = self._known[name] = digest, _class_spec(self._schemas[name])
            self._is_stored = False
        return known[1]

    def constructor(self, name: str, structure: str) -> CodeType:
        """The code of a structure's constructor, which defines `__init__`. Raises like `[]`."""
        spec = self[name]
        key = generator_digest() + self._known[name][0]
        found = self._code_cache.load(f"{name}-constructors", key)
        if found is None:
            found = {each: compile(source, name, "exec") for each, (_, source) in spec[2].items()}
            self._code_cache.store(f"{name}-constructors", key, found)
        code: CodeType = found[structure]
        return code

    def store(self) -> bool:
        """Stores what was used for the next process; returns False if the cache cannot be used."""
        if not self._is_stored:
            self._is_stored = self._code_cache.store(_ENTRY, generator_digest(), self._known)
        return self._is_stored


def _class_spec(definition: Definition) -> ClassSpec:
    versions = definition.versions.lowest, definition.versions.highest
    structures = {structure.name: _structure_spec(structure) for structure in definition.structures.values()}
    return definition.api_key, versions, structures


def _structure_spec(structure: Structure) -> StructureSpec:
    parameters, assignments = [], []
    for field in structure.fields:
        name = field.attribute
        if isinstance(field.default, Fresh):
            fresh = "[]" if field.default is Fresh.LIST else f"TOP.{field.type.name}()"
            parameters.append(f"{name}=FRESH")
            assignments.append(f"    self.{name} = {fresh} if {name} is FRESH else {name}\n")
        else:
            parameters.append(f"{name}={field.default!r}")
            assignments.append(f"    self.{name} = {name}\n")
    constructor = f"def __init__({', '.join(['self', *parameters])}):\n{''.join(assignments) or '    pass'}\n"
    return tuple(field.attribute for field in structure.fields), constructor

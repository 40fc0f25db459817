"""Message definitions, read from Kafka's own definition format and validated.

One JSON file describes one message in all its versions. A folder of files is a `SchemaFolder`, and a dialect is a folder whose
files replace some of them by name. Definitions are read on first use: there are more than a hundred, and a server uses twenty
of them in its first minute.

The notation is Kafka's, so that a newer definition can be dropped in, and it has one trap. `"default": "null"` (a string) makes
the field null by default. A bare `"default": null` does *not*: Kafka's generator then takes an empty list or an empty structure
as the default, and null, which differs from it, must be written out. Here both become distinct Python values: None, or
`Fresh.LIST` / `Fresh.STRUCT`.
"""

import json
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

_PACKAGE = Path(__file__).resolve().parent.parent
_BUNDLED = _PACKAGE / "bundled"
"""Where a wheel has the files that are not code (setup.py copies them); in a checkout they are beside the package."""

SCHEMAS = (_BUNDLED if _BUNDLED.is_dir() else _PACKAGE.parent) / "protocol_schemas"
"""The folder of the message definitions."""

LATEST = 0x7FFF
"""The upper end of "3+"."""

PRIMITIVES = frozenset(
    {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes", "records"}
)
KINDS = frozenset({"request", "response", "header", "data", "coordinator-key", "coordinator-value"})

_FILE_KEYS = frozenset(
    {"apiKey", "type", "name", "validVersions", "latestVersionUnstable", "flexibleVersions", "fields", "commonStructs"}
)
_FILE_KEYS_IGNORED = frozenset({"listeners", "about"})
_FIELD_KEYS = frozenset(
    {
        "name",
        "type",
        "versions",
        "nullableVersions",
        "taggedVersions",
        "tag",
        "flexibleVersions",
        "default",
        "ignorable",
    }
)
_FIELD_KEYS_IGNORED = frozenset({"about", "entityType", "mapKey", "zeroCopy", "fields"})


class SchemaError(Exception):
    """A definition is invalid; the text names the file, the field and the reason."""


class Fresh(Enum):
    """A default that is created for every message, because it is mutable."""

    LIST = "[]"
    STRUCT = "{}"


Default = bool | int | float | str | bytes | Fresh | None


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty when `highest` is below `lowest`."""

    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    @staticmethod
    @cache
    def parse(text: str) -> "Versions":
        """Reads "3", "0-5", "3+" or "none"."""
        if text == "none":
            return NO_VERSIONS
        match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
        if match is None:
            raise SchemaError(f"versions {text!r} are not of the form 3, 0-5, 3+ or none")
        lowest = int(match[1])
        highest = LATEST if match[2] else int(match[3] or lowest)
        if highest < lowest:
            raise SchemaError(f"versions {text!r} end before they start")
        return Versions(lowest, highest)


NO_VERSIONS = Versions(0, -1)


class FieldType(NamedTuple):
    """A primitive's or structure's name, once or as an array."""

    name: str
    is_array: bool

    @property
    def is_struct(self) -> bool:
        return self.name not in PRIMITIVES


class Field(NamedTuple):
    """One field of a message. `attribute` is its Python name; `flexible`, if not None, overrides the message's range."""

    name: str
    attribute: str
    type: FieldType
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    flexible: Versions | None
    default: Default
    ignorable: bool


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure's fields in wire order, under its name in the definition."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]


class Outline(NamedTuple):
    """The properties of a message as a whole."""

    name: str
    kind: str
    api_key: int | None
    versions: Versions
    flexible: Versions


@dataclass(frozen=True, slots=True)
class Definition:
    """A whole message: `root`, and the structures that its fields refer to."""

    name: str
    kind: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    root: Structure
    structures: Mapping[str, Structure]


class SchemaFolder:
    """The definitions of a folder, overridden by those of a dialect."""

    def __init__(self, folder: Path = SCHEMAS, dialect: str | None = None) -> None:
        self.dialect = dialect
        self._folders = [folder, folder / "records"]
        """The first one that has a message defines it."""
        if dialect is not None:
            self._folders.insert(0, folder / "dialects" / dialect)
            if not self._folders[0].is_dir():
                raise SchemaError(f"there is no dialect {dialect!r} in {folder / 'dialects'}")
        self._definitions: dict[str, Definition] = {}
        self._outlines: dict[str, Outline] = {}

    def __getitem__(self, name: str) -> Definition:
        """Returns the definition of a message. Raises KeyError if there is none, SchemaError if it is invalid."""
        definition = self._definitions.get(name)
        if definition is None:
            path, content = self._read(name)
            try:
                definition = parse_definition(json.loads(content))
            except (SchemaError, ValueError) as error:
                raise SchemaError(f"{path}: {error}") from error
            if definition.name != name:
                raise SchemaError(f"{path}: it defines {definition.name!r}")
            self._definitions[name] = definition
        return definition

    def outline(self, name: str) -> Outline:
        """Returns the properties of a message as a whole. A start needs them of many messages whose fields it never uses.

        Raises KeyError if there is no definition, SchemaError if it is invalid.
        """
        outline = self._outlines.get(name)
        if outline is None:
            path, content = self._read(name)
            try:
                outline = self._outlines[name] = _outline(json.loads(content))
            except (SchemaError, ValueError, KeyError) as error:
                raise SchemaError(f"{path}: {error}") from error
        return outline

    def content(self, name: str) -> bytes:
        """Returns the definition of a message as it is written. Raises KeyError if there is none."""
        return self._read(name)[1]

    def _read(self, name: str) -> tuple[str, bytes]:
        """The path of a definition and its content. The path is text: pathlib takes longer than the file."""
        for folder in self._folders:
            path = f"{folder}/{name}.json"
            try:
                with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - see above
                    return path, file.read()
            except FileNotFoundError:
                continue
        raise KeyError(name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all messages, sorted."""
        return tuple(sorted({path.stem for folder in self._folders for path in folder.glob("*.json")}))

    @cached_property
    def request_names(self) -> Mapping[int, str]:
        """API key -> name of the request."""
        requests = (self.outline(name) for name in self.names if name.endswith("Request"))
        return {request.api_key: request.name for request in requests if request.api_key is not None}


def dialects() -> list[str]:
    """The names of all dialects, which are the folders of their definitions."""
    return sorted(path.name for path in (SCHEMAS / "dialects").iterdir() if path.is_dir())


@cache
def definitions(dialect: str | None) -> SchemaFolder:
    """The definitions of a dialect (None: Kafka's own protocol), shared by the message classes and the codecs."""
    return SchemaFolder(dialect=dialect)


def parse_definition(source: Mapping[str, Any]) -> Definition:
    """Makes a Definition from a parsed file. Raises SchemaError if it breaks a rule of the format."""
    _refuse_unknown(source, _FILE_KEYS | _FILE_KEYS_IGNORED, "the definition")
    name, kind, api_key, versions, flexible = _outline(source)
    structures: dict[str, Structure] = {}
    for common in source.get("commonStructs", ()):
        _collect(common["name"], Versions.parse(common["versions"]), common["fields"], structures)
    root = _collect(name, versions, source["fields"], structures)
    definition = Definition(name, kind, api_key, versions, flexible, root, structures)
    _check(definition)
    return definition


def _outline(source: Mapping[str, Any]) -> Outline:
    name, kind = source["name"], source["type"]
    if kind not in KINDS:
        raise SchemaError(f"{name} has type {kind!r}, not one of {', '.join(sorted(KINDS))}")
    versions = Versions.parse(source["validVersions"])
    if source.get("latestVersionUnstable"):
        versions = Versions(versions.lowest, versions.highest - 1)
    return Outline(name, kind, source.get("apiKey"), versions, Versions.parse(source.get("flexibleVersions", "none")))


def _collect(
    name: str, versions: Versions, fields: list[dict[str, Any]], structures: dict[str, Structure]
) -> Structure:
    if name in structures:
        raise SchemaError(f"structure {name} is defined twice")
    parsed = []
    for field in fields:
        _refuse_unknown(field, _FIELD_KEYS | _FIELD_KEYS_IGNORED, f"field {name}.{field.get('name')}")
        parsed.append(_parse_field(name, field))
        if "fields" in field:
            _collect(parsed[-1].type.name, parsed[-1].versions, field["fields"], structures)
    structures[name] = Structure(name, versions, tuple(parsed))
    return structures[name]


def _parse_field(owner: str, source: Mapping[str, Any]) -> Field:
    name = source["name"]
    type_name = source["type"]
    field_type = FieldType(type_name.removeprefix("[]"), type_name.startswith("[]"))
    nullable = Versions.parse(source.get("nullableVersions", "none"))
    flexible = source.get("flexibleVersions")
    tagged = source.get("taggedVersions", "none")
    try:
        default = _parse_default(field_type, source)
    except ValueError as error:
        raise SchemaError(f"default of {owner}.{name}: {error}") from error
    if default is None and nullable == NO_VERSIONS and field_type.name != "records":
        raise SchemaError(f"{owner}.{name} is null by default and never nullable")
    return Field(
        name=name,
        attribute=attribute_name(name),
        type=field_type,
        versions=Versions.parse(source.get("versions", tagged)),
        nullable=nullable,
        tagged=Versions.parse(tagged),
        tag=source.get("tag"),
        flexible=None if flexible is None else Versions.parse(flexible),
        default=default,
        ignorable=bool(source.get("ignorable", False)),
    )


def _parse_default(field_type: FieldType, source: Mapping[str, Any]) -> Default:
    stated = source.get("default")
    if stated == "null":
        return None
    if field_type.is_array or field_type.is_struct:
        if stated not in (None, ""):
            raise SchemaError(f"{source['name']} can only be null or empty by default, not {stated!r}")
        return Fresh.LIST if field_type.is_array else Fresh.STRUCT
    text = "" if stated is None else str(stated)
    match field_type.name:
        case "string":
            return text
        case "bytes":
            return b""
        case "records":
            return None  # as in Kafka's classes: a batch is present or absent
        case "uuid":
            return b"\0" * 16
        case "bool":
            return text.lower() == "true"
        case "float64":
            return float(text or 0)
        case _:
            return int(text or "0", 0)


def _check(definition: Definition) -> None:
    for structure in definition.structures.values():
        tags: set[int] = set()
        for field in structure.fields:
            if field.tag is None and field.tagged is NO_VERSIONS and not field.type.is_struct:
                continue
            where = f"{definition.name}: {structure.name}.{field.name}"
            if field.type.is_struct and field.type.name not in definition.structures:
                raise SchemaError(f"{where} has the unknown type {field.type.name}")
            if (field.tag is None) != (field.tagged == NO_VERSIONS):
                raise SchemaError(f"{where} needs both a tag and taggedVersions, or neither")
            if field.tag is None:
                continue
            if field.tag in tags:
                raise SchemaError(f"{where} repeats tag {field.tag}")
            tags.add(field.tag)
            for version in definition.versions:
                if version in field.tagged and version in field.versions and version not in definition.flexible:
                    raise SchemaError(f"{where} is tagged in version {version}, which is not flexible")


def _refuse_unknown(source: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(set(source) - known)
    if unknown:
        raise SchemaError(f"{where} has unknown keys: {', '.join(unknown)}")


@cache
def attribute_name(name: str) -> str:
    """GroupId -> group_id; a Python keyword gets a trailing underscore."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return snake + "_" if keyword.iskeyword(snake) else snake

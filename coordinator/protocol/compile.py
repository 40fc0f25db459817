"""Writes the fast functions: walks a declaration once and makes one flat decode and one flat encode function.

Interpreting a declaration takes 20 us for a Heartbeat, most of it for calls and dictionaries. The same walk can print what it
would do: a run of fixed-width fields (and the length prefix of a string) becomes one `struct` call, a short string one slice,
an array a loop in place, an empty tag section one comparison. The result is what a person would write, and it can be read:
`Codec.source(name, version)` returns it, and tracebacks show its lines. `generated.py` makes functions of it.

Decoding never checks a bound before a read (see `wire.py`). It does check what nothing else would stop: an array's count
against the bytes that are left, the number of elements of the whole message against a limit, and the end.
"""

import struct
from collections.abc import Iterable
from typing import Any

from coordinator.protocol import wire
from coordinator.protocol.generated import BOOL, RESERVED, GeneratedSource
from coordinator.protocol.primitives import (
    Absent,
    Array,
    Body,
    Fixed,
    Marker,
    Nullable,
    Prefix,
    Sized,
    Tagged,
    Uuid,
    Value,
    least_size,
)
from coordinator.protocol.schema import Fresh, attribute_name

INDENT = "    "


class _Writer:
    """The lines of a function under construction, and the names of the `struct` methods that it needs."""

    def __init__(self, name: str, version: int, structures: Iterable[str]) -> None:
        self.message = name
        self.version = version
        self._bound: set[str] = set()
        self._lines: list[str] = []
        self._depth = 0
        self._names: set[str] = {*RESERVED, *_SCRATCH, *structures}

    def line(self, text: str) -> None:
        self._lines.append(INDENT * self._depth + text)

    def indent(self) -> None:
        self._depth += 1

    def dedent(self) -> None:
        self._depth -= 1

    def fresh_name(self, base: str) -> str:
        """Returns a local variable that no other part of the function uses."""
        name, number = base, 1
        while name in self._names or name in self._bound:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name

    def bound(self, verb: str, codes: str) -> str:
        """Returns the name of the `struct` method that packs or unpacks a format."""
        return self._bind(f"{verb}_{codes}")

    def many(self, verb: str, code: str) -> str:
        """Returns the name of the `Many` that has such methods for any number of values of one type."""
        return self._bind(f"{verb}_many_{code}")

    def _bind(self, name: str) -> str:
        name = name.replace("?", BOOL)
        self._bound.add(name)
        return name

    def generated(self) -> GeneratedSource:
        return GeneratedSource("\n".join(self._lines) + "\n", tuple(sorted(self._bound)))


_SCRATCH = frozenset({"buffer", "pos", "end", "n", "size", "left", "tag", "out"})


# --- decode ---------------------------------------------------------------------------------------------------------


def decoder_source(
    body: Body, name: str, version: int, structures: Iterable[str], elements_max: int | None
) -> GeneratedSource:
    """The source of `decode(buffer, pos) -> (message, end)`. It knows the classes of the structures by name."""
    return _DecodeWriter(name, version, structures, elements_max).write(body)


class _DecodeWriter(_Writer):
    def __init__(self, name: str, version: int, structures: Iterable[str], elements_max: int | None) -> None:
        super().__init__(name, version, structures)
        self._elements_max = elements_max
        self._run: list[tuple[str, str]] = []  # (struct code, target) of fixed-width reads not written yet

    def write(self, body: Body) -> GeneratedSource:
        self.line("def decode(buffer, pos):")
        self.indent()
        self.line("size = len(buffer)")
        if self._elements_max is not None and _has_array(body):
            self.line(f"left = {self._elements_max}")
        else:
            self._elements_max = None
        self.line("try:")
        self.indent()
        target = self._body(body)
        self._flush()
        self.dedent()
        self.line("except (IndexError, struct.error) as error:")
        self.line(f'    raise DecodeError("{self.message} v{self.version} is truncated") from error')
        self.line("if pos > size:")
        self.line(f'    raise DecodeError("{self.message} v{self.version} is truncated")')
        self.line(f"return {target}, pos")
        return self.generated()

    def _body(self, body: Body) -> str:
        """Writes code that reads a structure into a new local variable; returns its name."""
        target = self.fresh_name(attribute_name(body.structure))
        self.line(f"{target} = new({body.structure})")
        for field in body.subcons:
            self._value(field.subcon, f"{target}.{field.name}", field.name)
        self._flush()
        if body.flexible:
            self._tags(body.tagged, target)
        return target

    def _value(self, subcon: Any, target: str, field: str) -> None:
        match subcon:
            case Fixed() | Uuid():
                self._run.append((subcon.code, target))
            case Sized():
                self._sized(subcon, target, field)
            case Array():
                self._array(subcon, target, field)
            case Body():
                self._flush()
                self.line(f"{target} = {self._body(subcon)}")
            case Nullable():
                self._nullable(subcon, target)
            case Absent():
                self.line(f"{target} = {default_source(subcon.value)}")

    def _flush(self, *, keep_last: bool = False) -> None:
        """Writes the fixed-width reads collected so far as one; `keep_last` leaves pos at the byte of the last one."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        width = struct.calcsize(">" + codes) - keep_last
        targets = ", ".join(target for _, target in self._run)
        if codes == "B":
            self.line(f"{targets} = buffer[pos]")
        else:
            comma = "," if len(self._run) == 1 else ""
            self.line(f"{targets}{comma} = {self.bound('unpack', codes)}(buffer, pos)")
        if width:
            self.line(f"pos += {width}")
        self._run.clear()

    def _size(self, prefix: Prefix) -> None:
        """Writes code that reads a size into n. If it is compact, n is the raw first byte and pos stays at it."""
        self._run.append(("B" if prefix is Prefix.COMPACT else prefix.value, "n"))
        self._flush(keep_last=prefix is Prefix.COMPACT)

    def _sized(self, subcon: Sized, target: str, field: str) -> None:
        self._size(subcon.prefix)
        if subcon.prefix is Prefix.COMPACT and subcon.is_text:
            memo, size = ("NULLABLE_COMPACT_TEXTS", "(n or 1)") if subcon.nullable else ("COMPACT_TEXTS", "n")
            self.line("if n < 128:")
            self.line(f"    end = pos + {size}")
            self.line(f"    {target} = {memo}[buffer[pos:end]]")
            self.line("    pos = end")
            self.line("else:")
            self.line(f'    {target}, pos = read_long_text(buffer, pos, "{field}")')
            return
        if subcon.prefix is Prefix.COMPACT:
            if subcon.nullable:
                self.line("if n == 0:")
                self.line(f"    {target} = None")
                self.line("    pos += 1")
            self.line(f"{'elif n < 128' if subcon.nullable else 'if 0 < n < 128'}:")
            self.line("    end = pos + n")
            self.line(f"    {target} = buffer[pos + 1:end]")
            self.line("    pos = end")
            self.line("else:")
            self.line(f'    {target}, pos = read_long_bytes(buffer, pos, "{field}")')
            return
        self.line("if n < 0:")
        self.line(f"    {target} = None" if subcon.nullable else f'    raise null_refused("{field}")')
        if subcon.nullable:
            self.line("else:")
            self.indent()
        self.line("end = pos + n")
        self.line(f"{target} = {'TEXTS[buffer[pos:end]]' if subcon.is_text else 'buffer[pos:end]'}")
        self.line("pos = end")
        if subcon.nullable:
            self.dedent()

    def _array(self, subcon: Array, target: str, field: str) -> None:
        """A one-byte count is not compared with the bytes that are left: the buffer ends before it becomes expensive."""
        least = least_size(subcon.element)
        too_many = f"n{f' * {least}' if least > 1 else ''} > size - pos"
        self._size(subcon.prefix)
        if subcon.prefix is Prefix.COMPACT:
            self.line("if n < 128:")
            self.line("    pos += 1")
            self.line("    n -= 1")
            self.line("else:")
            self.line("    n, pos = read_varint(buffer, pos)")
            self.line("    n -= 1")
            self.line(f"    if {too_many}:")
            self.line(f'        raise count_refused("{field}", n)')
        if subcon.nullable:
            self.line("if n < 0:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.indent()
        if subcon.prefix is not Prefix.COMPACT:
            self.line(f"if {too_many}:")
            self.line(f'    raise count_refused("{field}", n)')
        if self._elements_max is not None:
            self.line("if not 0 <= n <= left:")
            self.line(f'    raise count_refused("{field}", n)')
            self.line("left -= n")
        elif not subcon.nullable:
            self.line("if n < 0:")
            self.line(f'    raise null_refused("{field}")')
        match subcon.element:
            case Fixed(code=code):
                self.line(f"{target} = list({self.many('unpack', code)}[n](buffer, pos))")
                self.line(f"pos += n * {least}" if least > 1 else "pos += n")
            case Uuid():
                self.line("end = pos + n * 16")
                self.line(f"{target} = [buffer[pos:pos + 16] for pos in range(pos, end, 16)]")
                self.line("pos = end")
            case element:
                items = self.fresh_name(field)
                self.line(f"{target} = {items} = []")
                self.line("for _ in range(n):")
                self.indent()
                if isinstance(element, Body):
                    item = self._body(element)
                else:
                    item = self.fresh_name("element")
                    self._value(element, item, field)
                    self._flush()
                self.line(f"{items}.append({item})")
                self.dedent()
        if subcon.nullable:
            self.dedent()

    def _nullable(self, subcon: Nullable, target: str) -> None:
        self._flush()
        if subcon.marker is Marker.VARINT:
            self.line("n, pos = read_varint(buffer, pos)")
            self.line("if n == 0:")
        else:
            self._run.append(("b", "n"))
            self._flush()
            self.line("if n < 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.indent()
        self.line(f"{target} = {self._body(subcon.body)}")
        self.dedent()

    def _tags(self, tagged: list[Tagged], target: str) -> None:
        if not tagged:
            self.line("if buffer[pos]:")
            self.line("    pos = skip_tags(buffer, pos)")
            self.line("else:")
            self.line("    pos += 1")
            return
        for field in tagged:
            self.line(f"{target}.{field.attribute} = {default_source(field.value)}")
        self.line("if buffer[pos] == 0:")
        self.line("    pos += 1")
        if len(tagged) == 1 and isinstance(tagged[0].subcon, Fixed | Uuid):
            code = tagged[0].subcon.code
            head = _lone_tag_head(tagged[0], code)
            self.line(f"elif buffer[pos:pos + {len(head)}] == {head!r}:")
            self.line(f"    {target}.{tagged[0].attribute}, = {self.bound('unpack', code)}(buffer, pos + {len(head)})")
            self.line(f"    pos += {len(head) + struct.calcsize(f'>{code}')}")
        self.line("else:")
        self.indent()
        stop = self.fresh_name("stop")
        self.line("n, pos = read_varint(buffer, pos)")
        self.line("for _ in range(n):")
        self.indent()
        self.line("tag, pos = read_varint(buffer, pos)")
        self.line("n, pos = read_varint(buffer, pos)")
        self.line(f"{stop} = pos + n")
        for number, field in enumerate(tagged):
            self.line(f"{'elif' if number else 'if'} tag == {field.tag}:")
            self.indent()
            self._value(field.subcon, f"{target}.{field.attribute}", field.attribute)
            self._flush()
            self.line(f"if pos != {stop}:")
            self.line(f'    raise tag_refused("{field.attribute}")')
            self.dedent()
        self.line("else:")
        self.line(f"    pos = {stop}")
        self.dedent()
        self.dedent()


def default_source(value: Value) -> str:
    """A default as Python source."""
    if value.default is Fresh.LIST:
        return "[]"
    if value.default is Fresh.STRUCT:
        return f"{value.struct_name}()"
    return repr(value.default)


def _has_array(subcon: Any) -> bool:
    match subcon:
        case Array():
            return True
        case Body():
            fields = [field.subcon for field in (*subcon.subcons, *subcon.tagged)]
            return any(_has_array(field) for field in fields)
        case Nullable():
            return _has_array(subcon.body)
    return False


# --- encode ---------------------------------------------------------------------------------------------------------


def encoder_source(body: Body, name: str, version: int, structures: Iterable[str]) -> GeneratedSource:
    """The source of `encode(message) -> bytes`.

    For a message that has a part of variable length, `encode(message, joined=f)` returns `f(list of its parts)`.
    """
    return _EncodeWriter(name, version, structures).write(body)


class _EncodeWriter(_Writer):
    def __init__(self, name: str, version: int, structures: Iterable[str]) -> None:
        super().__init__(name, version, structures)
        self._run: list[tuple[str, str | None]] = []  # (struct code, expression) of fixed-width values not written yet
        self._pieces: list[str] = []  # expressions of bytes not written yet
        self._out: str | None = None  # the list that pieces are written to, once the function needs one

    def write(self, body: Body) -> GeneratedSource:
        self.line("def encode(message):")
        self.indent()
        self.line("try:")
        self.indent()
        start = len(self._lines)
        self._body(body, "message")
        self._flush_run()
        if self._out is None:
            joined = f'b"".join(({", ".join(self._pieces)}))' if len(self._pieces) != 1 else self._pieces[0]
            self.line(f"return {joined}")
        else:
            self._lines.insert(start, INDENT * self._depth + "out = []")
            self._flush()
            self._lines[0] = "def encode(message, joined=joined):"
            self.line("return joined(out)")
        self.dedent()
        self.line("except (AttributeError, TypeError, ValueError, struct.error) as error:")
        self.line(f'    raise EncodeError(f"{self.message} v{self.version}: {{error}}") from error')
        return self.generated()

    def _body(self, body: Body, source: str) -> None:
        for field in body.subcons:
            self._value(field.subcon, f"{source}.{field.name}", field.name)
        if body.flexible and body.tagged:
            self._tags(body.tagged, source)
        elif body.flexible:
            self._run.append(("x", None))

    def _value(self, subcon: Any, source: str, field: str) -> None:
        match subcon:
            case Fixed() | Uuid():
                self._run.append((subcon.code, source))
            case Sized():
                self._sized(subcon, source, field)
            case Array():
                self._array(subcon, source, field)
            case Body():
                name = self.fresh_name(field)
                self.line(f"{name} = {source}")
                self._body(subcon, name)
            case Nullable():
                self._nullable(subcon, source, field)
            case Absent():
                if not subcon.ignorable:
                    self.line(f"if {differs_source(subcon.value, source)}:")
                    self.line(f'    raise absent_refused("{field}", "{self.message}", {self.version})')

    def _flush_run(self) -> None:
        """Turns the fixed-width values collected so far into one piece."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        sources = [source for _, source in self._run if source is not None]
        if sources:
            self._pieces.append(f"{self.bound('pack', codes)}({', '.join(sources)})")
        else:
            self._pieces.append(repr(bytes(len(codes))))
        self._run.clear()

    def _flush(self) -> None:
        """Writes everything collected so far to the list."""
        self._flush_run()
        self._out = self._out or "out"
        if len(self._pieces) == 1:
            self.line(f"{self._out}.append({self._pieces[0]})")
        elif self._pieces:
            self.line(f"{self._out} += ({', '.join(self._pieces)})")
        self._pieces.clear()

    def _piece(self, expression: str) -> None:
        self._flush_run()
        self._pieces.append(expression)

    def _sized(self, subcon: Sized, source: str, field: str) -> None:
        compact = subcon.prefix is Prefix.COMPACT
        if subcon.is_text:
            memo = "COMPACT" if compact else "PLAIN"
            self._piece(f"{'NULLABLE_' if subcon.nullable else ''}{memo}[{source}]")
            return
        content, size = self.fresh_name(field), self.fresh_name(f"{field}_size")
        prefix = f"SHORT[{size}] if {size} < 127 else size_prefix({size})"
        if subcon.nullable:
            self.line(f"{content} = {source}")
            self.line(f"if {content} is None:")
            self.line(f'    {content} = b""')
            self.line(f"    {size} = " + ('b"\\0"' if compact else "-1"))
            self.line("else:")
            self.line(f"    {size} = len({content})")
            if compact:
                self.line(f"    {size} = {prefix}")
                self._piece(size)
            else:
                self._run.append((subcon.prefix.value, size))
        else:
            self.line(f"{content} = {source}")
            if compact:
                self.line(f"{size} = len({content})")
                self._piece(f"({prefix})")
            else:
                self._run.append((subcon.prefix.value, f"len({content})"))
        self._piece(content)

    def _array(self, subcon: Array, source: str, field: str) -> None:
        items = self.fresh_name(field)
        self.line(f"{items} = {source}")
        compact = subcon.prefix is Prefix.COMPACT
        if subcon.nullable:
            self._flush()
            self.line(f"if {items} is None:")
            null = "\\x00" if compact else "\\xff\\xff\\xff\\xff"
            self.line(f'    {self._out}.append(b"{null}")')
            self.line("else:")
            self.indent()
        count = f"len({items})"
        if compact:
            self._piece(f"(SHORT[{count}] if {count} < 127 else size_prefix({count}))")
        else:
            self._run.append((subcon.prefix.value, count))
        match subcon.element:
            case Fixed(code=code):
                self._piece(f"{self.many('pack', code)}[{count}](*{items})")
            case Uuid():
                self._piece(f'b"".join([pack_16s(element) for element in {items}])')
                self.bound("pack", "16s")
            case element:
                self._flush()
                item = self.fresh_name(attribute_name(element.structure) if isinstance(element, Body) else "element")
                self.line(f"for {item} in {items}:")
                self.indent()
                if isinstance(element, Body):
                    self._body(element, item)
                else:
                    self._value(element, item, field)
                self._flush()
                self.dedent()
        if subcon.nullable:
            self._flush()
            self.dedent()

    def _nullable(self, subcon: Nullable, source: str, field: str) -> None:
        name = self.fresh_name(field)
        self._flush()
        self.line(f"{name} = {source}")
        self.line(f"if {name} is None:")
        null = "\\xff" if subcon.marker is Marker.INT8 else "\\x00"
        self.line(f'    {self._out}.append(b"{null}")')
        self.line("else:")
        self.indent()
        self._piece('b"\\x01"')
        self._body(subcon.body, name)
        self._flush()
        self.dedent()

    def _tags(self, tagged: list[Tagged], source: str) -> None:
        if len(tagged) == 1 and isinstance(tagged[0].subcon, Fixed | Uuid):
            self._lone_fixed_tag(tagged[0], tagged[0].subcon.code, source)
            return
        self._flush()
        outer = self._out
        tags = "" if len(tagged) == 1 else self.fresh_name("tags")
        if tags:
            self.line(f"{tags} = []")
        for field in tagged:
            self.line(f"if {differs_source(field.value, f'{source}.{field.attribute}')}:")
            self.indent()
            self._out = content = self.fresh_name("content")
            self.line(f"{content} = []")
            self._value(field.subcon, f"{source}.{field.attribute}", field.attribute)
            self._flush()
            self.line(f'{content} = b"".join({content})')
            number = wire.write_varint(field.tag) if tags else _lone_tag_number(field)
            size = f"len({content})"
            prefix = f"SHORT[{size} - 1] if 0 < {size} < 128 else write_varint({size})"
            self.line(f"{tags or outer} += ({number!r}, {prefix}, {content})")
            self.dedent()
        self._out = outer
        if tags:
            self.line(f"{outer}.append(write_varint(len({tags}) // 3))")
            self.line(f"{outer} += {tags}")
        else:
            self.line("else:")
            self.line(f'    {outer}.append(b"\\0")')

    def _lone_fixed_tag(self, field: Tagged, code: str, source: str) -> None:
        """Writes a section that can hold one field of known width: count, tag and size are known in advance."""
        tags, value = self.fresh_name("tags"), f"{source}.{field.attribute}"
        head = _lone_tag_head(field, code)
        self.line(f"{tags} = b'\\0'")
        self.line(f"if {differs_source(field.value, value)}:")
        self.line(f"    {tags} = {head!r} + {self.bound('pack', code)}({value})")
        self._piece(tags)


def _lone_tag_head(field: Tagged, code: str) -> bytes:
    """The first bytes of a section that holds only this field of fixed width: a count of one, the tag, the size."""
    return _lone_tag_number(field) + wire.write_varint(struct.calcsize(f">{code}"))


def _lone_tag_number(field: Tagged) -> bytes:
    """The first bytes of a section that holds only this field: a count of one and the tag."""
    return b"\1" + wire.write_varint(field.tag)


def differs_source(value: Value, source: str) -> str:
    """Source of the condition that a field's value is not its default."""
    null_or = f"{source} is None or " if value.nullable else ""
    if value.default is None:
        return f"{source} is not None"
    if value.default is Fresh.LIST:
        return f"{null_or}len({source})"
    if value.default is Fresh.STRUCT:
        return null_or + " or ".join(
            f"({differs_source(member, f'{source}.{name}')})" for name, member in value.struct.items()
        )
    return f"{source} != {value.default!r}"

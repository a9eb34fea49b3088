"""From a table to a function that reads it.

Here: the text of decode(view, at) -> (message, at) for one version of one message.
Next door: the bounded readers that text calls (wire/buffer.py), the table (schema.py).
Never here: a length used without a reader of wire/buffer.py having checked it.

Neighbouring fields of fixed size are unpacked together; struct checks their bounds.
A decoder in steps is the same function as a generator: it pauses after every so many rows.
"""

from __future__ import annotations

import struct

from kafscale.wire import buffer
from kafscale.wire.kafka.schema import (
    Decoder,
    DecoderInSteps,
    Field,
    Message,
    Struct,
    Wire,
    fields,
    smallest,
)
from kafscale.wire.kafka.source import FunctionSource


def decoder(kind: type[Message], version: int) -> Decoder:
    """Compile the decoder of one version."""
    return DecodeEmitter(kind, version).source.function(f"decode_{kind.__name__}_v{version}")


def decoder_in_steps(kind: type[Message], version: int) -> DecoderInSteps:
    """Compile the decoder of one version that pauses between rows."""
    emitter = DecodeEmitter(kind, version, in_steps=True)
    return emitter.source.function(f"decode_{kind.__name__}_v{version}")


class DecodeEmitter:
    """Writes one decoder."""

    def __init__(self, kind: type[Message], version: int, *, in_steps: bool = False) -> None:
        self.source = FunctionSource(in_steps=in_steps)
        self._version = version
        self._flexible = version >= kind.flexible_from
        self._view, self._at = "view", "at"
        with self.source.block(f"def decode_{kind.__name__}_v{version}(view, at):"):
            self.source.line("rows = 0")
            self.source.begin_steps()
            built = self._row(kind)
            self.source.line(f"return {built}, at")

    def _call(self, function: str, *arguments: object) -> str:
        self.source.helper(getattr(buffer, function), function)
        rest = "".join(f", {argument}" for argument in arguments)
        return f"{function}({self._view}, {self._at}{rest})"

    def _compact(self, function: str) -> str:
        return f"compact_{function}" if self._flexible else function

    # ---- rows

    def _row(self, row: type[Struct]) -> str:
        """Read a row's fields into local names; returns the expression that builds the row."""
        every = fields(row, self._version)
        values = {f.name: repr(f.default) for f in every}
        run: list[tuple[str, Field]] = []
        for field in every:
            if not field.there or field.tagged:
                continue
            values[field.name] = name = self.source.fresh(field.name)
            if field.wire.code:
                run.append((name, field))
                continue
            self._run(run)
            self._value(name, field.wire, field.nullable)
        self._run(run)
        if self._flexible:
            self._tags([f for f in every if f.there and f.tagged], values)
        known = self.source.constant(row.__name__, row)
        return f"{known}({', '.join(values.values())})"

    def _run(self, run: list[tuple[str, Field]]) -> None:
        if not run:
            return
        packed = struct.Struct(">" + "".join(field.wire.code for _, field in run))
        unpack = self.source.constant("unpack", packed.unpack_from)
        names = ", ".join(name for name, _ in run)
        self.source.line(f"{names}, = {unpack}({self._view}, {self._at})")
        self.source.line(f"{self._at} += {packed.size}")
        run.clear()

    def _tags(self, known: list[Field], values: dict[str, str]) -> None:
        if not known:
            self.source.line(f"{self._at} = {self._call('skip_tags')}")
            return
        for field in known:
            name = self.source.fresh(field.name)
            self.source.line(f"{name} = {values[field.name]}")
            values[field.name] = name
        found = self.source.fresh("tags")
        highest = max(field.tag for field in known)
        self.source.line(f"{found}, {self._at} = {self._call('tags', highest)}")
        for field in known:
            with self.source.block(f"if {field.tag} in {found}:"):
                self._tagged(values[field.name], field, found)

    def _tagged(self, name: str, field: Field, found: str) -> None:
        outer = self._view, self._at
        self._view, self._at = self.source.fresh("inner"), self.source.fresh("inner_at")
        self.source.line(f"{self._view} = {found}[{field.tag}]")
        self.source.line(f"{self._at} = 0")
        self._value(name, field.wire, field.nullable)
        self.source.line(self._call("exhausted", field.tag))
        self._view, self._at = outer

    # ---- values

    def _value(self, name: str, wire: Wire, nullable: bool) -> None:
        if wire.code:
            self._run([(name, Field(name, wire, True, False, -1, None))])
        elif wire.name == "string":
            reader = self._compact("nullable_string" if nullable else "string")
            self.source.line(f"{name}, {self._at} = {self._call(reader)}")
        elif wire.name in ("bytes", "records"):
            self._bytes(name, wire, nullable)
        elif wire.name == "array":
            self._array(name, wire, nullable)
        else:
            self._struct(name, wire, nullable)

    def _bytes(self, name: str, wire: Wire, nullable: bool) -> None:
        self.source.line(f"{name}, {self._at} = {self._call(self._compact('slice_of'))}")
        if not nullable:
            given = self.source.helper(buffer.given, "given")
            self.source.line(f"{name} = {given}({name}, {self._at})")
        if wire.name == "bytes":
            # Small and kept for long (group metadata): a slice would pin the whole frame.
            unless = f" if {name} is not None else None" if nullable else ""
            self.source.line(f"{name} = bytes({name}){unless}")

    def _array(self, name: str, wire: Wire, nullable: bool) -> None:
        assert wire.element is not None
        size = self.source.fresh("size")
        least = smallest(wire.element, self._version, self._flexible)
        counted = self._call(self._compact("count"), least)
        self.source.line(f"{size}, {self._at} = {counted}")
        # Before any of them becomes an object: millions would hold up every client.
        self.source.line(f"rows += {size}")
        most = self.source.helper(buffer.row_count, "row_count")
        self.source.line(f"if rows > {buffer.MOST_ROWS}: {most}(rows)")
        if nullable:
            with self.source.block(f"if {size} < 0:"):
                self.source.line(f"{name} = None")
            with self.source.block("else:"):
                self._elements(name, wire.element, size)
        else:
            present = self.source.helper(buffer.present, "present")
            self.source.line(f"if {size} < 0: {present}({size}, {self._at})")
            self._elements(name, wire.element, size)

    def _elements(self, name: str, element: Wire, size: str) -> None:
        if element.code and element.name != "uuid":
            unpack = self.source.helper(struct.unpack_from, "unpack_from")
            form = f'f">{{{size}}}{element.code}"'
            self.source.line(f"{name} = list({unpack}({form}, {self._view}, {self._at}))")
            self.source.line(f"{self._at} += {size} * {struct.calcsize('>' + element.code)}")
            return
        self.source.line(f"{name} = []")
        with self.source.block(f"for _ in range({size}):"):
            if element.row is not None:
                one = self._row(element.row)
            else:
                one = self.source.fresh("one")
                self._value(one, element, nullable=False)
            self.source.line(f"{name}.append({one})")
            self.source.step()

    def _struct(self, name: str, wire: Wire, nullable: bool) -> None:
        assert wire.row is not None
        if not nullable:
            self.source.line(f"{name} = {self._row(wire.row)}")
            return
        there = self.source.fresh("there")
        self._value(there, Wire("int8", "b"), nullable=False)
        with self.source.block(f"if {there} < 0:"):
            self.source.line(f"{name} = None")
        with self.source.block("else:"):
            self.source.line(f"{name} = {self._row(wire.row)}")

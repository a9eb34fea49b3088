"""From a table to a function that writes it.

Here: the text of encode(message, out) -> buffers for one version of one message.
Next door: the writers that text calls (primitives.py), the table (schema.py).
Never here: input from outside.

Neighbouring integers, arrays of integers and the empty tag section are packed with one call.
An encoder in steps is the same function as a generator: it pauses after every so many rows.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafscale.wire.kafka import primitives
from kafscale.wire.kafka.schema import (
    Encoder,
    EncoderInSteps,
    Field,
    Message,
    Struct,
    Wire,
    fields,
)
from kafscale.wire.kafka.source import FunctionSource


class _Piece(NamedTuple):
    """Part of a run: a fixed-size value, an array of them, or a constant zero byte."""

    code: str
    value: str = ""
    is_array: bool = False


def encoder(kind: type[Message], version: int) -> Encoder:
    """Compile the encoder of one version."""
    return EncodeEmitter(kind, version).source.function(f"encode_{kind.__name__}_v{version}")


def encoder_in_steps(kind: type[Message], version: int) -> EncoderInSteps:
    """Compile the encoder of one version that pauses between rows."""
    emitter = EncodeEmitter(kind, version, in_steps=True)
    return emitter.source.function(f"encode_{kind.__name__}_v{version}")


class EncodeEmitter:
    """Writes one encoder."""

    def __init__(self, kind: type[Message], version: int, *, in_steps: bool = False) -> None:
        self.source = FunctionSource(in_steps=in_steps)
        self._version = version
        self._flexible = version >= kind.flexible_from
        self._out = "out"
        self._run: list[_Piece] = []
        with self.source.block(f"def encode_{kind.__name__}_v{version}(message, out):"):
            self.source.line("done = []")
            self.source.begin_steps()
            self._row(kind, "message")
            with self.source.block("if out or not done:"):
                self.source.line("done.append(out)")
            self.source.line("return done")

    def _call(self, function: str, value: str) -> str:
        return f"{self.source.helper(getattr(primitives, function), function)}({value})"

    def _compact(self, function: str) -> str:
        return f"compact_{function}" if self._flexible else function

    def _write(self, expression: str) -> None:
        self.source.line(f"{self._out} += {expression}")

    # ---- rows

    def _row(self, row: type[Struct], value: str) -> None:
        there = [f for f in fields(row, self._version) if f.there]
        for field in there:
            if not field.tagged:
                self._value(f"{value}.{field.name}", field.wire, field.nullable)
        tagged = sorted((f for f in there if f.tagged), key=lambda f: f.tag)
        if self._flexible and not tagged:
            self._run.append(_Piece("x"))
        self._flush()
        if self._flexible and tagged:
            self._tags(tagged, value)

    def _flush(self) -> None:
        """Write the fixed-size values gathered so far."""
        run, self._run = self._run, []
        if not run:
            return
        if all(piece.code == "x" for piece in run):
            self._write(repr(bytes(len(run))))
        elif any(piece.is_array for piece in run):
            self._shaped(run)
        else:
            pack = struct.Struct(">" + "".join(piece.code for piece in run)).pack
            values = ", ".join(piece.value for piece in run if piece.value)
            self._write(f"{self.source.constant('pack', pack)}({values})")

    def _shaped(self, run: list[_Piece]) -> None:
        """A run with arrays in it: the packer is looked up by the arrays' lengths."""
        template = ">" + "".join("{}" if piece.is_array else piece.code for piece in run)
        codes = tuple(piece.code for piece in run if piece.is_array)
        rows = self.source.constant("rows", primitives.RowPackers(template, codes, self._flexible))
        sizes, arguments = [], []
        for piece in run:
            if not piece.is_array:
                arguments += [piece.value] * bool(piece.value)
                continue
            array, size = self.source.fresh("array"), self.source.fresh("size")
            self.source.line(f"{array} = {piece.value}")
            self.source.line(f"{size} = len({array})")
            sizes.append(size)
            arguments += [f"{size} + 1" if self._flexible else size, f"*{array}"]
        self._write(f"{rows}[{', '.join(sizes)},]({', '.join(arguments)})")

    def _tags(self, tagged: list[Field], value: str) -> None:
        number, section = self.source.fresh("number"), self.source.fresh("section")
        self.source.line(f"{number} = 0")
        self.source.line(f"{section} = b''")
        for field in tagged:
            held = self.source.fresh(field.name)
            self.source.line(f"{held} = {value}.{field.name}")
            with self.source.block(f"if {_differs(held, field.default)}:"):
                self._tagged(held, field, section)
                self.source.line(f"{number} += 1")
        with self.source.block(f"if {number}:"):
            self._write(self._call("unsigned_varint", number))
            self._write(section)
        with self.source.block("else:"):
            self._write(repr(b"\0"))

    def _tagged(self, held: str, field: Field, section: str) -> None:
        outer, self._out = self._out, self.source.fresh("inner")
        self.source.line(f"{self._out} = bytearray()")
        self._value(held, field.wire, field.nullable)
        self._flush()
        tag = repr(primitives.unsigned_varint(field.tag))
        size = self._call("unsigned_varint", f"len({self._out})")
        self.source.line(f"{section} += {tag} + {size} + {self._out}")
        self._out = outer

    # ---- values

    def _value(self, value: str, wire: Wire, nullable: bool) -> None:
        if wire.code:
            self._run.append(_Piece(wire.code, value))
        elif wire.name == "array" and not nullable and _packable(wire.element):
            self._run.append(_Piece(_packable(wire.element), value, is_array=True))
        elif wire.name == "string":
            self._flush()
            writer = self._compact("nullable_string" if nullable else "string")
            self._write(self._call(writer, value))
        else:
            self._flush()
            self._long_value(value, wire, nullable)

    def _long_value(self, value: str, wire: Wire, nullable: bool) -> None:
        held = self.source.fresh(wire.name)
        self.source.line(f"{held} = {value}")
        if not nullable:
            self._body(held, wire)
            return
        with self.source.block(f"if {held} is None:"):
            null = b"\xff" if wire.name == "struct" else self._length_bytes(-1)
            self._write(repr(null))
        with self.source.block("else:"):
            if wire.name == "struct":
                self._write(repr(b"\x01"))
            self._body(held, wire)

    def _length_bytes(self, size: int) -> bytes:
        return primitives.compact_length(size) if self._flexible else primitives.length(size)

    def _body(self, held: str, wire: Wire) -> None:
        measure = self._compact("length")
        if wire.row is not None:
            self._row(wire.row, held)
        elif wire.name == "records":
            put = self.source.helper(primitives.put_records, "put_records")
            self.source.helper(getattr(primitives, measure), measure)
            self.source.line(f"{self._out} = {put}(done, {self._out}, {held}, {measure})")
        elif wire.name == "bytes":
            self._write(self._call(measure, f"len({held})"))
            self._write(held)
        else:
            assert wire.element is not None
            self._write(self._call(measure, f"len({held})"))
            one = self.source.fresh("one")
            with self.source.block(f"for {one} in {held}:"):
                self._value(one, wire.element, nullable=False)
                self._flush()
                self.source.step()


def _packable(element: Wire | None) -> str:
    """The code of an element that can be packed in bulk, or nothing."""
    return element.code if element is not None and element.name != "uuid" else ""


def _differs(held: str, default: object) -> str:
    return f"{held} is not None" if default is None else f"{held} != {default!r}"

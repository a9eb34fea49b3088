"""What a table says about one version."""

from typing import Annotated

import pytest

from kafscale.wire.kafka import codec
from kafscale.wire.kafka.schema import Int16, Message, Struct, V, Wire, fields, smallest
from tests.unit.wire.kafka.cases import EVERY_VERSION


class Row(Struct):
    always: Int16 = 7
    window: Annotated[str, V(2, 3)] = ""
    name: Annotated[str | None, V(1, nullable=3)] = ""
    extra: Annotated[list[Int16], V(2, tag=5)] = []  # noqa: RUF012 - copied by msgspec


def test_a_field_knows_when_it_is_there_and_when_it_may_be_null() -> None:
    by_version = {v: {f.name: f for f in fields(Row, v)} for v in range(5)}
    assert [by_version[v]["window"].there for v in range(5)] == [False, False, True, True, False]
    assert [by_version[v]["name"].there for v in range(5)] == [False, True, True, True, True]
    assert [by_version[v]["name"].nullable for v in range(5)] == [False, False, False, True, True]
    assert by_version[2]["extra"].tag == 5
    assert by_version[0]["always"].default == 7
    assert by_version[0]["extra"].default == []


def test_the_smallest_row_counts_what_cannot_be_left_out() -> None:
    row = Wire("struct", row=Row)
    assert [smallest(row, v, flexible=False) for v in range(5)] == [2, 4, 6, 6, 4]
    assert smallest(row, 4, flexible=True) == 2 + 1 + 1
    assert smallest(row, 4, flexible=True, nullable=True) == 1


@pytest.mark.parametrize(("kind", "version"), EVERY_VERSION)
def test_no_message_is_shorter_than_the_smallest(kind: type[Message], version: int) -> None:
    written = b"".join(codec.encode(kind(), version))
    least = smallest(Wire("struct", row=kind), version, version >= kind.flexible_from)
    assert len(written) == least

"""Single Protobuf messages as plain values, by a compiled descriptor set.

Here: for people who look at one record, without columns and without Arrow. Next door: many of them
as columns (protobuf.py), where descriptor sets come from (registry.py).
"""

from collections.abc import Callable
from typing import Any, Final

from kafscale.model.errors import CorruptObject, InvalidRequest

_MOST_NESTED: Final = 20


def message_reader(descriptors: bytes) -> Callable[[bytes], Any]:
    """A reader of framed messages: the place of the message in the last file, then its bytes."""
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
        for file in files:
            pool.Add(file)
        last = pool.FindFileByName(files[-1].name)
    except (DecodeError, TypeError, KeyError, IndexError) as bad:
        raise InvalidRequest(f"not a descriptor set, as protoc writes it: {bad}") from bad

    def read(framed: bytes) -> Any:
        path, at = read_place(framed)
        try:
            found = list(last.message_types_by_name.values())[path[0]]
            for index in path[1:]:
                found = found.nested_types[index]
            message = message_factory.GetMessageClass(found)()
            message.ParseFromString(framed[at:])
            return json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=pool
            )
        except (DecodeError, IndexError, TypeError, ValueError) as bad:
            raise CorruptObject(f"not a message of this schema: {bad}") from bad

    return read


def read_place(framed: bytes) -> tuple[list[int], int]:
    """Which message of the file it is, and where its bytes begin: zigzag varints, counted."""
    count, at = _varint(framed, 0)
    if not 0 <= count <= _MOST_NESTED:
        raise CorruptObject("the place of the message makes no sense")
    path = []
    for _ in range(count):
        index, at = _varint(framed, at)
        path.append(index)
    return path or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise CorruptObject("the place of the message makes no sense")

"""Values that are Protobuf messages of a compiled descriptor set.

Here: one message as columns, and where it stands in its file, which a registry's clients write
before a value. Next door: values that name their schema by a number (framed.py).
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from kafscale.model.errors import InvalidRequest
from kafscale.spark.values.decoding import Decoded, apart, cast
from kafscale.spark.values.types import plain_schema


class MessageDescriptor(NamedTuple):
    """A message's descriptor and its place: of the file's messages, of that one's, and so on."""

    descriptor: Any
    path: tuple[int, ...]


class ProtobufValues:
    """Reads one message. Fields that are not set are what Protobuf says: zero, empty or null."""

    def __init__(self, descriptors: bytes, message: str = "", *, first: bool = False) -> None:
        """Take a FileDescriptorSet; `first` takes its last file's first message for unnamed."""
        import ptars

        self.message = find_message(descriptors, message, first=first)
        config = ptars.PtarsConfig(timestamp_unit="us", enum_repr="string")
        pool = ptars.HandlerPool([self.message.descriptor.file], config)
        self._handler = pool.get_for_message(self.message.descriptor)
        self.schema = plain_schema(self._handler.schema())

    def decode(self, values: pa.Array) -> Decoded:
        """Columns of the values that are such messages."""
        return apart(values, self._columns, self.schema, "not this Protobuf message")

    def _columns(self, values: pa.Array) -> list[pa.Array]:
        return cast(self._handler.array_to_record_batch(values), self.schema)


def find_message(descriptors: bytes, message: str, *, first: bool = False) -> MessageDescriptor:
    """A message by its full name; unnamed, the only one there is."""
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
        for file in files:
            pool.Add(file)
            pool.FindFileByName(file.name)
    except (DecodeError, TypeError, KeyError) as bad:
        raise InvalidRequest(f"not a descriptor set, as protoc writes it: {bad}") from bad
    if not files:
        raise InvalidRequest("not a descriptor set, as protoc writes it: there is no file in it")
    paths = {name: path for file in files for name, path in _paths(file.package, file.message_type)}
    outer = [name for name, path in paths.items() if len(path) == 1]
    if first and not message:
        outer = [name for name, path in _paths(files[-1].package, files[-1].message_type)][:1]
    chosen = message or (outer[0] if len(outer) == 1 else "")
    if chosen not in paths:
        raise InvalidRequest(f"which message? there are {', '.join(paths)}")
    return MessageDescriptor(pool.FindMessageTypeByName(chosen), paths[chosen])


def _paths(
    scope: str, messages: Iterable[Any], above: tuple[int, ...] = ()
) -> Iterator[tuple[str, tuple[int, ...]]]:
    for at, message in enumerate(messages):
        name = f"{scope}.{message.name}".lstrip(".")
        yield name, (*above, at)
        yield from _paths(name, message.nested_type, (*above, at))

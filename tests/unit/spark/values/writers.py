"""Values as Confluent's own serializers write them, and the classes of Protobuf messages."""

import json
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from tests.unit.spark.values.schema_registry import FakeSchemaRegistry

INT64, STRING, MESSAGE = 3, 9, 11


def avro_schema(**fields: Any) -> str:
    rows = [{"name": field, "type": kind} for field, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": rows})


class AvroWriter:
    """Writes records of one schema, registered by its first value."""

    def __init__(self, registry: FakeSchemaRegistry, schema: str, topic: str = "orders") -> None:
        client = SchemaRegistryClient({"url": registry.url})
        self._serialize = AvroSerializer(client, schema)
        self._context = SerializationContext(topic, MessageField.VALUE)

    def __call__(self, **fields: Any) -> bytes:
        return bytes(self._serialize(fields, self._context))


def shop_files(*, newer: bool = False) -> list[descriptor_pb2.FileDescriptorProto]:
    """Two files: messages Item and Order with an Order.Line inside, which use Google's times."""
    common = descriptor_pb2.FileDescriptorProto(
        name="common.proto", package="shop", syntax="proto3"
    )
    common.message_type.add(name="Place").field.add(name="city", number=1, type=STRING, label=1)
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3",
        dependency=["common.proto", timestamp_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    file.message_type.add(name="Item").field.add(name="id", number=1, type=INT64, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=INT64, label=1)
    at = order.field.add(name="at", number=2, type=MESSAGE, label=1)
    at.type_name = ".google.protobuf.Timestamp"
    place = order.field.add(name="place", number=3, type=MESSAGE, label=1)
    place.type_name = ".shop.Place"
    if newer:
        order.field.add(name="note", number=4, type=STRING, label=1)
    line = order.nested_type.add(name="Line")
    line.field.add(name="count", number=1, type=INT64, label=1)
    return [common, file]


def message_class(name: str, *, newer: bool = False) -> Any:
    """A message's class, in a world of its own."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in shop_files(newer=newer):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


class ProtobufWriter:
    """Writes messages of one class, registered with what they import by its first value."""

    def __init__(self, registry: FakeSchemaRegistry, made: Any, topic: str = "orders") -> None:
        client = SchemaRegistryClient({"url": registry.url})
        self._class = made
        self._serialize = ProtobufSerializer(made, client, {"use.deprecated.format": False})
        self._context = SerializationContext(topic, MessageField.VALUE)

    def __call__(self, **fields: Any) -> bytes:
        return bytes(self._serialize(self._class(**fields), self._context))

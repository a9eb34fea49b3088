"""Schemas as Pulsar's clients bring and ask for them: GET_SCHEMA, GET_OR_CREATE_SCHEMA.

Here: which schema a topic gets, and versions as bytes. A new schema is taken as it is: the broker
does not look into it, and whether consumers can read payloads of another version is theirs to know.
Errors of these commands go into their own answers.
Next door: where schemas are kept (log/catalog/schemas.py), topics by their names (topics.py).
"""

from typing import Final

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.pulsar import topics
from kafscale.gateways.pulsar.channel import Channel, error_of
from kafscale.gateways.pulsar.context import PulsarContext, Refused
from kafscale.log.catalog.schemas import TopicSchema
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    GetOrCreateSchema,
    GetOrCreateSchemaResponse,
    GetSchema,
    GetSchemaResponse,
    Schema,
)
from kafscale.wire.pulsar.messages.metadata import KeyValue

_VERSION_BYTES: Final = 8
# Types that say nothing about payloads: none, and those by which a client asks for the topic's own.
_SAY_NOTHING: Final = frozenset({0, 21})


def version_bytes(version: int) -> bytes:
    """A version as clients have it in every message."""
    return version.to_bytes(_VERSION_BYTES, "big")


async def version_for(context: PulsarContext, topic: Topic, schema: Schema | None) -> bytes:
    """The version of a producer's schema, kept from now on; empty without one."""
    if schema is None or schema.type in _SAY_NOTHING:
        return b""
    return version_bytes(await context.engine.topics.schemas.add(_id(topic), _kept(schema)))


async def begin_with(context: PulsarContext, topic: Topic, schema: Schema | None) -> None:
    """A consumer's schema is the topic's if the topic has none. Raises KafscaleError."""
    if schema is None or schema.type in _SAY_NOTHING:
        return
    if await context.engine.topics.schemas.newest(_id(topic)) is None:
        await context.engine.topics.schemas.add(_id(topic), _kept(schema))


async def find(channel: Channel, asked: GetSchema) -> GetSchemaResponse:
    """A version of a topic's schema, or the newest one."""
    answer = GetSchemaResponse(request_id=asked.request_id)
    try:
        place = await topics.find_place(channel.context, asked.topic)
        channel.require(AccessOperation.DESCRIBE, ResourceType.TOPIC, place.topic.name)
        kept = channel.context.engine.topics.schemas
        if asked.schema_version:
            version = int.from_bytes(asked.schema_version[:_VERSION_BYTES], "big")
            found = await kept.get(_id(place.topic), version)
        else:
            newest = await kept.newest(_id(place.topic))
            version, found = newest if newest is not None else (0, None)
        if found is None:
            raise Refused(ServerError.TOPIC_NOT_FOUND, f"{asked.topic} has no such schema")
    except (KafscaleError, Refused) as problem:
        answer.error_code, answer.error_message = error_of(problem), str(problem)
        return answer
    answer.schema, answer.schema_version = _told(found), version_bytes(version)
    return answer


async def add(channel: Channel, asked: GetOrCreateSchema) -> GetOrCreateSchemaResponse:
    """The version of a schema, which a producer is about to use."""
    answer = GetOrCreateSchemaResponse(request_id=asked.request_id)
    try:
        place = await topics.find_place(channel.context, asked.topic, channel.require_create)
        channel.require(AccessOperation.WRITE, ResourceType.TOPIC, place.topic.name)
        answer.schema_version = await version_for(channel.context, place.topic, asked.schema)
    except (KafscaleError, Refused) as problem:
        answer.error_code, answer.error_message = error_of(problem), str(problem)
    return answer


def _id(topic: Topic) -> str:
    return topic.descriptor.topic_id


def _kept(schema: Schema) -> TopicSchema:
    properties = {one.key: one.value for one in schema.properties}
    return TopicSchema(schema.name, schema.type, schema.schema_data, properties)


def _told(kept: TopicSchema) -> Schema:
    return Schema(
        name=kept.name,
        schema_data=kept.data,
        type=kept.kind,
        properties=[KeyValue(key=key, value=value) for key, value in kept.properties.items()],
    )

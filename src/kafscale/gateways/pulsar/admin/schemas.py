"""A topic's schemas, for clients that look up by HTTP: they read them by HTTP, too.

Next door: which topic, and whether the client may see it (paths.py), schemas as commands
(../schemas.py), where they are kept (log/catalog/schemas.py).
"""

from http import HTTPStatus
from typing import Final

from kafscale.engine.engine import Engine
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.http import HttpAnswer, as_json
from kafscale.model.errors import InvalidRequest

_MOST_DIGITS: Final = 18
# By the number that a schema's type has in the binary protocol.
_TYPES: Final = (
    *("NONE", "STRING", "JSON", "PROTOBUF", "AVRO", "BOOLEAN", "INT8", "INT16", "INT32", "INT64"),
    *("FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "KEY_VALUE", "INSTANT", "LOCAL_DATE"),
    *("LOCAL_TIME", "LOCAL_DATE_TIME", "PROTOBUF_NATIVE"),
)
_KEY_VALUE: Final = _TYPES.index("KEY_VALUE")


async def answer(engine: Engine, topic: Topic, version_text: str | None) -> HttpAnswer | None:
    """A version of a topic's schema, or the newest one; None: it has no form in JSON here."""
    kept, topic_id = engine.topics.schemas, topic.descriptor.topic_id
    if version_text is None:
        newest = await kept.newest(topic_id)
        version, found = newest if newest is not None else (0, None)
    else:
        if not version_text.isdecimal() or len(version_text) > _MOST_DIGITS:
            raise InvalidRequest(f"{version_text!r} is no version")
        version = int(version_text)
        found = await kept.get(topic_id, version)
    if found is None:
        return as_json({"reason": f"{topic.name} has no such schema"}, HTTPStatus.NOT_FOUND)
    if found.kind == _KEY_VALUE or not 0 <= found.kind < len(_TYPES):
        return None
    return as_json(
        {
            "version": version,
            "type": _TYPES[found.kind],
            "timestamp": 0,
            "data": found.data.decode("utf-8", "replace"),
            "properties": found.properties,
        }
    )

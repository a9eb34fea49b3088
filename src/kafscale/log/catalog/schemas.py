"""The schemas of topics in the bucket: what payloads look like, by version.

Here: finding a schema's version, adding the next one. A version is an object that is created if
absent. So of two brokers that add a schema at once, one gets the number, and the other one the
next. What was read is kept in memory: versions are never changed.
Next door: the names (formats/keys.py), when a client adds one (gateways/pulsar).
Never here: what a schema means, and whether two fit each other.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from kafscale.log.formats import keys
from kafscale.model.errors import CorruptObject, InvalidRequest, ObjectExists
from kafscale.objects.store import ObjectStore

MOST_BYTES: Final = 1 << 20  # of one schema
MOST_VERSIONS: Final = 1000
_KEPT_TOPICS: Final = 1000  # whose schemas are in memory


class TopicSchema(msgspec.Struct, frozen=True):
    """What payloads of a topic look like; `kind` is the number that clients know the type by."""

    name: str
    kind: int
    data: bytes
    properties: dict[str, str] = {}

    def is_same(self, other: "TopicSchema") -> bool:
        """Whether they say the same, whatever they are called."""
        return (self.kind, self.data) == (other.kind, other.data)


_DECODER: Final = msgspec.json.Decoder(TopicSchema)


class TopicSchemas:
    """The schemas of all topics of a namespace."""

    def __init__(self, store: ObjectStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._known: OrderedDict[str, list[TopicSchema]] = OrderedDict()

    async def newest(self, topic_id: str) -> tuple[int, TopicSchema] | None:
        """The last version, which other brokers may have added a moment ago; None: no schema."""
        known = await self._read_on(topic_id)
        return (len(known) - 1, known[-1]) if known else None

    async def all_of(self, topic_id: str) -> list[TopicSchema]:
        """All versions, the first one first."""
        return list(await self._read_on(topic_id))

    async def get(self, topic_id: str, version: int) -> TopicSchema | None:
        """One version; None: there is none of this number."""
        known = self._known.get(topic_id, [])
        if not 0 <= version < len(known):
            known = await self._read_on(topic_id)
        return known[version] if 0 <= version < len(known) else None

    async def add(self, topic_id: str, schema: TopicSchema) -> int:
        """The version of this schema, the next one if it is new. Raises InvalidRequest."""
        body = msgspec.json.encode(schema)
        if len(body) > MOST_BYTES:
            raise InvalidRequest(f"a schema of {len(body)} bytes; {MOST_BYTES} are allowed")
        version = _find(self._known.get(topic_id, []), schema)
        while version is None:
            known = await self._read_on(topic_id)
            version = _find(known, schema)
            if version is None:
                if len(known) >= MOST_VERSIONS:
                    raise InvalidRequest(f"the topic has {MOST_VERSIONS} schemas already")
                key = keys.schema(self._namespace, topic_id, len(known))
                try:
                    await self._store.put_new(key, [body])
                except ObjectExists:
                    pass  # another broker was faster, or our own first attempt was
        return version

    async def remove(self, topic_id: str) -> None:
        """Remove the schemas of a topic that is deleted."""
        self._known.pop(topic_id, None)
        rows = await self._store.find(keys.schema_folder(self._namespace, topic_id))
        if rows:
            await self._store.delete([row.key for row in rows])

    async def _read_on(self, topic_id: str) -> list[TopicSchema]:
        """What is known of a topic, with what has come since."""
        known = self._known.setdefault(topic_id, [])
        self._known.move_to_end(topic_id)
        if len(self._known) > _KEPT_TOPICS:
            self._known.popitem(last=False)
        folder = keys.schema_folder(self._namespace, topic_id)
        last = keys.schema(self._namespace, topic_id, len(known) - 1) if known else ""
        rows = await self._store.find(folder, after=last, limit=MOST_VERSIONS)
        for row in rows:
            if row.key == keys.schema(self._namespace, topic_id, len(known)):
                known.append(_decoded(row.key, await self._store.read(row.key)))
        return known


def _find(known: list[TopicSchema], schema: TopicSchema) -> int | None:
    return next((number for number, one in enumerate(known) if one.is_same(schema)), None)


def _decoded(key: str, data: memoryview) -> TopicSchema:
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as problem:
        raise CorruptObject(f"{key}: {problem}") from problem

"""The data port: clients produce records and stream them.

Here: the APIs of this port, where partitions begin and end, opening streams and giving them credit.
Next door: producing (produce.py), streams (streams.py), consumers' offsets (consumer_offsets.py).
"""

import asyncio
from functools import partial
from typing import Final

from kafscale.engine.partitions.reads import PartitionRead
from kafscale.engine.partitions.visibility import READ_COMMITTED
from kafscale.gateways.connection import Connection
from kafscale.gateways.fluvio.context import FluvioContext
from kafscale.gateways.fluvio.data import consumer_offsets, produce
from kafscale.gateways.fluvio.data.streams import Streams
from kafscale.gateways.fluvio.errors import DENIED, error_of
from kafscale.gateways.fluvio.session import FluvioApi, FluvioSession
from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.tasks import Tasks
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.errors import NO_ERROR, FluvioCode, FluvioError
from kafscale.wire.fluvio.frame import FluvioRequest
from kafscale.wire.fluvio.messages import (
    api_versions,
    fetch_offsets,
    stream_fetch,
)
from kafscale.wire.fluvio.messages import (
    consumer_offsets as consumer_offset_messages,
)
from kafscale.wire.fluvio.messages import (
    produce as produce_messages,
)
from kafscale.wire.fluvio.messages.fetch_offsets import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    PartitionOffsets,
    TopicOffsets,
)
from kafscale.wire.fluvio.messages.stream_fetch import (
    OffsetUpdateStatus,
    StreamFetchRequest,
    StreamFetchResponse,
    UpdateOffsetsRequest,
    UpdateOffsetsResponse,
)

_MOST_STREAMS: Final = 10_000  # of one connection
_LARGEST_ANSWER_BYTES: Final = 8 << 20
_LATEST: Final = -1  # epoch: a client of Fluvio knows none


class DataSession(FluvioSession):
    """A connection of the data port."""

    platform_version = "0.0.0"  # as Fluvio's own data port says; no client looks at it

    def __init__(self, connection: Connection, context: FluvioContext, tasks: Tasks) -> None:
        super().__init__(connection, context, tasks)
        self.work = context.workers.new_queue()
        self.streams = Streams(self)
        self._commits: set[asyncio.Task[None]] = set()  # that answers to Produce wait for

    def closed(self) -> None:
        """End the streams. Batches that were appended are committed all the same."""
        super().closed()
        self.streams.close()

    def writable(self) -> None:
        """Go on after the client has read some answers."""
        super().writable()
        self.streams.go_on()

    async def answer_produce(
        self, request: FluvioRequest, frame: memoryview
    ) -> asyncio.Task[None] | None:
        """Store records."""
        under_way = await produce.answer(self, request, frame)
        if under_way is not None:
            self._commits.add(under_way)
            under_way.add_done_callback(self._commits.discard)
        return under_way

    # -- where partitions begin and end ------------------------------------------------------

    async def answer_fetch_offsets(
        self, request: FluvioRequest, frame: memoryview
    ) -> asyncio.Task[None]:
        """Tell where partitions begin and end. Requests behind this one do not wait for it."""
        wanted = schema.decode(FetchOffsetsRequest, frame, request.version, request.body_start)
        return self.tasks.spawn(self._tell_offsets(request, wanted), "fluvio offsets")

    async def _tell_offsets(self, request: FluvioRequest, wanted: FetchOffsetsRequest) -> None:
        if self._commits:
            await asyncio.wait(set(self._commits))  # what came before this has taken effect
        topics = []
        for topic in wanted.topics:
            rows = [
                await self._offsets_of(request, topic.name, partition, wanted.consumer_id)
                async for partition in self.engine.turns.each(topic.partitions)
            ]
            topics.append(TopicOffsets(topic.name, rows))
        self.send(request, FetchOffsetsResponse(topics))

    async def _offsets_of(
        self, request: FluvioRequest, name: str, partition: int, consumer_id: str | None
    ) -> PartitionOffsets:
        describe = AccessOperation.DESCRIBE
        if not self.allows(request, describe, ResourceType.TOPIC, name) or (
            consumer_id is not None
            and not self.allows(request, describe, ResourceType.GROUP, consumer_id)
        ):
            return PartitionOffsets(DENIED, partition)
        try:
            topic = self.engine.topics.get(name)
            bounds = await self.engine.partitions.bounds(topic, partition, _LATEST)
            start = bounds.start
            if consumer_id is not None:
                place = (name, partition)
                committed = await self.engine.offsets.committed(consumer_id, [place])
                start = committed[place].offset if place in committed else start
        except KafscaleError as problem:
            self.note_refusal(request, problem)
            return PartitionOffsets(error_of(problem), partition)
        return PartitionOffsets(NO_ERROR, partition, start, bounds.end)

    # -- streams -----------------------------------------------------------------------------

    async def answer_stream_fetch(self, request: FluvioRequest, frame: memoryview) -> None:
        """Open a stream, or say why not."""
        wanted = schema.decode(StreamFetchRequest, frame, request.version, request.body_start)
        try:
            if not self.allows(request, AccessOperation.READ, ResourceType.TOPIC, wanted.topic):
                self._refuse_stream(request, wanted, DENIED)
                return
            position = self._position(wanted)
            chain = None
            if wanted.smart_modules:
                modules = self.context.smart_modules
                chain = await self.work.run(partial(modules.open, wanted.smart_modules, {}))
            if self.is_closed and chain is not None:
                chain.close()
                return
            stream = self.streams.open(request, position, wanted.consumer_id, chain)
        except KafscaleError as problem:
            self.note_refusal(request, problem)
            self._refuse_stream(request, wanted, error_of(problem))
            return
        stream.go_on()

    def _position(self, wanted: StreamFetchRequest) -> PartitionRead:
        """Where a stream begins. Raises what is wrong with the request."""
        if len(self.streams) >= _MOST_STREAMS:
            raise InvalidRequest(f"a connection has at most {_MOST_STREAMS} streams")
        topic = self.engine.topics.get(wanted.topic)
        topic.place(wanted.partition)  # UnknownTopic if there is no such partition
        return PartitionRead(
            topic,
            wanted.partition,
            wanted.fetch_offset,
            max(1, min(wanted.max_bytes, _LARGEST_ANSWER_BYTES)),
            isolation=READ_COMMITTED,  # whatever is asked for: decision 68
        )

    def _refuse_stream(
        self, request: FluvioRequest, wanted: StreamFetchRequest, error: FluvioError
    ) -> None:
        self.send(
            request,
            StreamFetchResponse(wanted.topic, partition=wanted.partition, error=error),
        )

    async def answer_update_offsets(self, request: FluvioRequest, frame: memoryview) -> None:
        """Give streams credit for one more answer."""
        wanted = schema.decode(UpdateOffsetsRequest, frame, request.version, request.body_start)
        rows = []
        for update in wanted.offsets:
            stream = self.streams.find(update.session_id)
            error = NO_ERROR
            if stream is None:
                error = FluvioError(FluvioCode.FETCH_SESSION_NOT_FOUND)
            else:
                stream.give_credit(update.offset)
            rows.append(OffsetUpdateStatus(update.session_id, error))
        self.send(request, UpdateOffsetsResponse(rows))

    apis = {  # noqa: RUF012 - the same for every connection
        api_versions.API_KEY: FluvioApi(
            "ApiVersions", api_versions.VERSIONS, FluvioSession.answer_api_versions
        ),
        produce_messages.API_KEY: FluvioApi("Produce", produce_messages.VERSIONS, answer_produce),
        fetch_offsets.API_KEY: FluvioApi(
            "FetchOffsets", fetch_offsets.VERSIONS, answer_fetch_offsets
        ),
        stream_fetch.API_KEY: FluvioApi("StreamFetch", stream_fetch.VERSIONS, answer_stream_fetch),
        stream_fetch.UPDATE_OFFSETS_KEY: FluvioApi(
            "UpdateOffsets", stream_fetch.UPDATE_OFFSETS_VERSIONS, answer_update_offsets
        ),
        consumer_offset_messages.UPDATE_KEY: FluvioApi(
            "UpdateConsumerOffset", consumer_offset_messages.VERSIONS, consumer_offsets.update
        ),
        consumer_offset_messages.DELETE_KEY: FluvioApi(
            "DeleteConsumerOffset", consumer_offset_messages.VERSIONS, consumer_offsets.delete
        ),
        consumer_offset_messages.FETCH_KEY: FluvioApi(
            "FetchConsumerOffsets", consumer_offset_messages.VERSIONS, consumer_offsets.fetch
        ),
    }

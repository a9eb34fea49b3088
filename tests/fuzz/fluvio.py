"""Spoilt frames and record sets of Fluvio clients.

Here: a corpus, and the properties. A request is read, or it is a MalformedMessage. A record set
becomes batches that pass the log's own check, or it is a BadBatch or an InvalidRequest.
Next door: the damage (mutations.py).
"""

import random
from typing import Final

from crc32c import crc32c

from kafscale.gateways.fluvio.control.session import ControlSession
from kafscale.gateways.fluvio.data.session import DataSession
from kafscale.gateways.fluvio.records import incoming
from kafscale.model.errors import BadBatch, InvalidRequest
from kafscale.records.validation import BatchLimits, validate
from kafscale.turns import run_through
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.frame import read_request, request_frame
from kafscale.wire.fluvio.messages import (
    change_objects,
    consumer_offsets,
    fetch_offsets,
    list_objects,
    produce,
    stream_fetch,
    watch,
)
from kafscale.wire.fluvio.messages.objects_envelope import ObjectEnvelope, sealed
from kafscale.wire.fluvio.messages.smart_modules import SmartModuleInvocation
from kafscale.wire.fluvio.schema import FluvioTable
from tests.support.fluvio_records import FluvioRecord, write_batch

_LIMIT: Final = 1 << 20
_LIMITS: Final = BatchLimits(_LIMIT, _LIMIT, _LIMIT)
_NOW_MS: Final = 1_700_000_000_000

# What stands in requests about objects, by key; Delete has the key of FetchOffsets.
_ABOUT_OBJECTS: Final[dict[int, FluvioTable]] = {
    1001: change_objects.CreateTopic("t"),
    1002: change_objects.DeleteTopic("t"),
    1003: list_objects.ListRequest(["t"]),
    1004: watch.WatchRequest(),
    1006: change_objects.UpdateTopic("t"),
}
_DATA: Final[dict[int, FluvioTable]] = {
    0: produce.ProduceRequest(
        topics=[
            produce.TopicProduceData(
                "t", [produce.PartitionProduceData(0, [write_batch([FluvioRecord(b"k", b"v")])])]
            )
        ],
        smart_modules=[SmartModuleInvocation()],
    ),
    1002: fetch_offsets.FetchOffsetsRequest([fetch_offsets.TopicOffsetsRequest("t", [0, 1])]),
    1003: stream_fetch.StreamFetchRequest("t", smart_modules=[SmartModuleInvocation()]),
    1005: stream_fetch.UpdateOffsetsRequest([stream_fetch.OffsetUpdate(1, 1)]),
    1006: consumer_offsets.UpdateConsumerOffsetRequest(1, 1),
    1007: consumer_offsets.DeleteConsumerOffsetRequest(),
    1008: consumer_offsets.FetchConsumerOffsetsRequest(consumer_offsets.OffsetFilter()),
}


def fluvio_corpus() -> list[bytes]:
    """Request frames without their length, of both ports."""
    frames = [
        request_frame(key, 19, 1, "fuzz", sealed("Topic", payload, 19))
        for key, payload in _ABOUT_OBJECTS.items()
    ]
    frames += [
        request_frame(key, 24 if key != 1005 else 0, 1, "fuzz", message)
        for key, message in _DATA.items()
    ]
    return [b"".join(bytes(piece) for piece in pieces)[4:] for pieces in frames]


def judge_fluvio(data: bytes) -> bool:
    """Read a frame as both ports would; whether one of them could."""
    could = False
    for tables, port in ((_ABOUT_OBJECTS, ControlSession), (_DATA, DataSession)):
        try:
            frame = memoryview(data)
            request = read_request(frame)
            table = tables.get(request.api_key)
            if table is None or request.version not in port.apis[request.api_key].versions:
                continue
            if tables is _ABOUT_OBJECTS:
                envelope = schema.decode(ObjectEnvelope, frame, request.version, request.body_start)
                assert isinstance(envelope.payload, memoryview)
                schema.decode(type(table), envelope.payload, request.version)
            else:
                schema.decode(type(table), frame, request.version, request.body_start)
            could = True
        except MalformedMessage:
            pass
    return could


def fluvio_sets(dice: random.Random) -> list[bytes]:
    """Record sets with every codec."""
    return [
        write_batch(
            [FluvioRecord(dice.choice([None, b"", b"key"]), dice.randbytes(9)) for _ in range(5)],
            codec,
        )
        for codec in range(5)
    ]


def judge_fluvio_set(data: bytes, *, sign: bool) -> None:
    """Convert a spoilt set; `sign`: with a right checksum, so that the damage is looked at."""
    if sign and len(data) > 60:
        data = data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]
    try:
        for one in incoming.each_batch(memoryview(data)):
            found = incoming.read_batch(one)
            plain = run_through(incoming.spliced(found, incoming.unpack(found, _LIMIT)))
            validate(incoming.to_store(plain, found.codec, _LIMITS, _NOW_MS), _LIMITS, _NOW_MS)
    except (BadBatch, InvalidRequest):
        pass

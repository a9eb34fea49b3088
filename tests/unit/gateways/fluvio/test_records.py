"""Records between Fluvio's format and the log's: nothing is lost, holes do not shift offsets."""

import struct
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.gateways.fluvio.records import incoming, outgoing, splice
from kafscale.gateways.fluvio.records.outgoing import OpenedBatch
from kafscale.model.errors import (
    BadBatch,
    BatchTooLarge,
    CorruptBatch,
    CorruptObject,
    InvalidRecord,
    InvalidRequest,
    UnsupportedCompression,
)
from kafscale.records import batch, record
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.records.validation import BatchLimits, validate
from kafscale.turns import run_through
from tests.support import fluvio_records as fluvio
from tests.support.fluvio_records import FluvioRecord, read_set, write_batch

LIMIT = 1 << 20
LIMITS = BatchLimits(LIMIT, LIMIT, LIMIT)
NOW_MS = 1_700_000_000_000

keys = st.none() | st.binary(max_size=70)
sent = st.lists(
    st.builds(
        FluvioRecord, keys, st.binary(max_size=200), st.integers(min_value=-5, max_value=2**40)
    ),
    min_size=1,
    max_size=80,
)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2)


def stored(data: bytes, limits: BatchLimits = LIMITS, codec: Codec | None = None) -> memoryview:
    """The batch as the log gets it."""
    (one,) = incoming.each_batch(memoryview(data))
    found = incoming.read_batch(one)
    unpacked = incoming.unpack(found, limits.max_decompressed_bytes)
    plain = run_through(incoming.spliced(found, unpacked))
    return incoming.to_store(plain, found.codec if codec is None else codec, limits, NOW_MS)


def handed_out(batches: list[bytes], start: int, end: int) -> tuple[list[fluvio.ReadRecord], int]:
    """What a client reads of stored batches, and where it goes on."""
    runs = []
    for one in batches:
        header, data = record.unpack(one, LIMIT)
        opened = OpenedBatch(header, b"" if header.is_control else data)
        runs += run_through(outgoing.cut(opened, start))
    pieces = outgoing.record_set(runs, start, end)
    return read_set(b"".join(bytes(piece) for piece in pieces))


@given(sent, st.sampled_from(list(Codec)))
def test_what_a_producer_sends_is_stored_record_for_record(
    records: list[FluvioRecord], codec: Codec
) -> None:
    data = stored(write_batch(records, codec, NOW_MS))
    header = validate(data, LIMITS, NOW_MS)
    assert header.codec == codec
    found = open_batch(data, LIMIT)
    assert [(one.key, one.value, one.timestamp_ms, one.offset) for one in found] == [
        (one.key, one.value, NOW_MS + one.time_delta, index) for index, one in enumerate(records)
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 5), keys, st.none() | st.binary(max_size=200), headers),
        min_size=1,
        max_size=60,
    ),
    st.integers(0, 120),
    st.sampled_from([Codec.NONE, Codec.GZIP]),
)
def test_what_a_client_reads_has_the_offsets_of_the_log(
    steps: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    start: int,
    codec: Codec,
) -> None:
    offset, records = 9, []
    for step, key, value, own in steps:
        offset += step
        records.append(Record(offset, NOW_MS + step, key, value, tuple(own)))
    end = offset + 3  # compaction has taken the last two
    built = bytearray(build_batch(records, base_offset=10, codec=codec))
    struct.pack_into(">i", built, 23, end - 11)
    batch.sign(built)
    start = min(start, end - 1)
    found, following = handed_out([bytes(built)], start, end)
    assert following == end
    assert [(one.offset, one.key, one.value, one.timestamp_ms) for one in found] == [
        (one.offset, one.key, one.value or b"", one.timestamp_ms)
        for one in records
        if one.offset >= start
    ]


def test_a_batch_that_no_client_sees_is_a_hole_and_batches_reach_up_to_the_next() -> None:
    first = build_batch([Record(0, NOW_MS, b"k", b"a")], base_offset=0)
    marker = bytearray(build_batch([Record(1, NOW_MS, b"k", b"m")], base_offset=1))
    struct.pack_into(">h", marker, 21, batch.CONTROL)
    last = build_batch([Record(4, NOW_MS, b"k", b"b")], base_offset=4)
    found, following = handed_out([first, bytes(marker), last], 0, 5)
    assert [(one.offset, one.value) for one in found] == [(0, b"a"), (4, b"b")]
    assert following == 5
    found, following = handed_out([bytes(marker)], 1, 2)
    assert (found, following) == ([], 2)


def test_a_batch_of_the_brokers_time_has_that_time_in_every_record() -> None:
    built = bytearray(
        build_batch([Record(at, NOW_MS + at, None, b"v") for at in range(3)], base_offset=0)
    )
    batch.stamp_append_time(built, NOW_MS + 99)
    found, _ = handed_out([bytes(built)], 0, 3)
    assert [one.timestamp_ms for one in found] == [NOW_MS + 99] * 3


def test_offsets_beyond_one_byte_are_counted_right() -> None:
    many = [Record(at, NOW_MS, None, b"") for at in range(9000)]
    found, following = handed_out([build_batch(many, base_offset=0)], 0, 9000)
    assert [one.offset for one in found] == list(range(9000))
    assert following == 9000
    data = stored(write_batch([FluvioRecord(None, b"")] * 9000))
    assert [one.offset for one in open_batch(data, LIMIT)] == list(range(9000))


def test_the_topics_codec_wins_over_the_producers() -> None:
    data = stored(write_batch([FluvioRecord(None, b"x")], fluvio.ZSTD), codec=Codec.GZIP)
    assert batch.read_header(data).codec == Codec.GZIP


ONE = [FluvioRecord(b"k", b"v")]


def _broken_record(change: bytes) -> bytes:
    return write_batch(ONE, payload=struct.pack(">i", 1) + change)


@pytest.mark.parametrize(
    ("data", "problem", "text"),
    [
        (write_batch(ONE)[:40], CorruptBatch, "are no batch"),
        (write_batch(ONE)[:-1], CorruptBatch, "a batch of"),
        (struct.pack(">qi", 0, -1) + write_batch(ONE)[12:], CorruptBatch, "a batch of"),
        (write_batch(ONE)[:-1] + b"\1", CorruptBatch, "checksum"),
        (write_batch(ONE, attributes=0x10), InvalidRequest, "schemas"),
        (write_batch(ONE, attributes=5), UnsupportedCompression, "codec 5"),
        (write_batch(ONE, attributes=1), CorruptBatch, "gzip"),
        (write_batch(ONE, attributes=2), CorruptBatch, "snappy"),
        (write_batch(ONE, payload=b""), CorruptBatch, "number of records"),
        (write_batch(ONE, payload=bytes(4)), InvalidRecord, "0 records"),
        (write_batch(ONE, payload=b"\x7f\xff\xff\xff" + bytes(50)), InvalidRecord, "cannot be"),
        (write_batch(ONE, last_delta=4), InvalidRecord, "up to offset delta 4"),
        (_broken_record(b"\x0f" + bytes(20)), InvalidRecord, "broken"),
        (_broken_record(b"\x10\0\0\0\2\0\0\0\0"), InvalidRecord, "broken"),
        (_broken_record(b"\x0e\0\0\0\1\1\0\0"), InvalidRecord, "broken"),
        (_broken_record(b"\x0c\0\0\0\0\1\0"), InvalidRecord, "broken"),
        (_broken_record(b"\x0c\0\0\0\0\x7e\0"), InvalidRecord, "broken"),
        (_broken_record(b"\x0c\0\0\0\0\0\0\0\0"), InvalidRecord, "follow the last"),
        (write_batch([FluvioRecord(None, bytes(2 << 20))]), BatchTooLarge, "unpack"),
        (write_batch([FluvioRecord(None, bytes(2 << 20))], fluvio.SNAPPY), BatchTooLarge, "unpack"),
        (write_batch([FluvioRecord(None, bytes(2 << 20))], fluvio.GZIP), BatchTooLarge, "unpack"),
    ],
)
def test_a_batch_that_is_wrong_is_refused_with_the_reason(
    data: bytes, problem: type[BadBatch], text: str
) -> None:
    with pytest.raises(problem, match=text):
        stored(data)


def test_a_batch_that_is_larger_than_the_topic_allows_is_refused() -> None:
    small = BatchLimits(100, LIMIT, LIMIT)
    with pytest.raises(BatchTooLarge, match="100 are allowed"):
        stored(write_batch([FluvioRecord(None, bytes(200))]), small)


@given(st.binary(max_size=60), st.integers(0, 70))
def test_broken_records_of_a_producer_do_no_harm(data: bytes, count: int) -> None:
    out: list[bytes] = []
    end = splice.to_kafka(data, 0, 0, count, out)
    assert end == splice.BROKEN or 0 <= end <= len(data)


@given(st.binary(min_size=1, max_size=60), st.integers(1, 9))
def test_broken_records_of_the_log_do_no_harm(data: bytes, count: int) -> None:
    built = batch.read_header(build_batch([Record(0, 0, None, b"")], base_offset=0))
    header = built._replace(record_count=count, last_offset_delta=count - 1)
    try:
        run_through(outgoing.cut(OpenedBatch(header, data), 0))
    except CorruptObject:
        pass


def _as_python() -> Any:
    """The loops' source, run by the interpreter: where a compiler was there, they are compiled."""
    path = Path(incoming.__file__).with_name("splice.py")
    loader = SourceFileLoader("splice_as_python", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


AS_PYTHON = _as_python()


@given(sent, st.binary(max_size=3), st.integers(0, 200), st.integers(0, 300))
def test_the_compiled_loops_and_their_source_do_the_same(
    records: list[FluvioRecord], noise: bytes, where: int, index: int
) -> None:
    fluvio_data = b"".join(fluvio.write_record(one, at) for at, one in enumerate(records))
    kafka_records = [
        Record(at, NOW_MS, one.key, one.value or None) for at, one in enumerate(records)
    ]
    _, kafka_data = record.unpack(build_batch(kafka_records, base_offset=0), LIMIT)
    for data in (fluvio_data, kafka_data):
        spoilt = data[:where] + noise + data[where + len(noise) :]
        outcomes = []
        for loops in (splice, AS_PYTHON):
            to_kafka: list[bytes] = []
            to_fluvio: list[bytes] = []
            outcomes.append(
                (
                    loops.to_kafka(spoilt, 0, index, len(records), to_kafka),
                    loops.to_fluvio(spoilt, 0, index, len(records), 0, True, to_fluvio),
                    loops.to_fluvio(spoilt, 0, index, len(records), 0, False, to_fluvio),
                    loops.offset_delta(spoilt, 0),
                    loops.after_record(spoilt, 0),
                    b"".join(to_kafka),
                    b"".join(to_fluvio),
                )
            )
        assert outcomes[0] == outcomes[1]

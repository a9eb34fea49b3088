"""What Pulsar clients send becomes records, and comes out as it went in."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.gateways.pulsar.messages import entries_in, entries_out, splice
from kafscale.gateways.pulsar.messages.entries_in import (
    PULSAR_ORIGIN,
    BatchFlag,
    Sender,
    batch_of_all,
    has_keys,
    open_entry,
)
from kafscale.gateways.pulsar.messages.entries_out import (
    EntryFraming,
    LastOpened,
    StoredBatch,
    entry_of_one,
    entry_of_run,
)
from kafscale.model.errors import BatchTooLarge, CorruptBatch, InvalidRecord, InvalidRequest
from kafscale.records import batch, compacted, named
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.subscriptions.events import MessageRun
from kafscale.wire.pulsar.frame import read_entry
from kafscale.wire.pulsar.messages.metadata import (
    EncryptionKey,
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
    each_single,
    single_bytes,
)

LIMIT = 1 << 20
NOW_MS = 1_790_000_000_000
FRAMING = EntryFraming()

texts = st.text(max_size=8)
keys = st.one_of(
    st.just({}),
    st.builds(lambda text: {"partition_key": text}, texts),
    st.builds(lambda raw: {"ordering_key": raw}, st.binary(max_size=8)),
    st.builds(
        lambda raw: {
            "partition_key": base64.b64encode(raw).decode(),
            "partition_key_b64_encoded": True,
        },
        st.binary(max_size=8),
    ),
    st.builds(
        lambda text, raw: {"partition_key": text, "ordering_key": raw}, texts, st.binary(max_size=4)
    ),
)
properties = st.lists(st.builds(lambda k, v: KeyValue(key=k, value=v), texts, texts), max_size=3)
bodies = st.builds(
    lambda key, more, event, value: {
        **key,
        **({"properties": more} if more else {}),
        **({"event_time": event} if event else {}),
        "value": value,
    },
    keys,
    properties,
    st.integers(0, 1 << 50),
    st.one_of(st.none(), st.binary(max_size=20)),
)


def whole(**fields: Any) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=7, publish_time=NOW_MS, **fields)


def sent(metadata: MessageMetadata, payload: bytes, codec: Codec | None = None) -> bytearray:
    entry = open_entry(memoryview(metadata.encode()), memoryview(payload), LIMIT)
    return batch_of_all([entry], codec)


def single(body: dict[str, Any]) -> tuple[MessageMetadata, bytes]:
    fields = dict(body)
    value = fields.pop("value")
    if value is None:
        fields["null_value"] = True
    return whole(**fields), value or b""


def batched(all_of_them: list[dict[str, Any]]) -> tuple[MessageMetadata, bytes]:
    payload = b""
    for number, body in enumerate(all_of_them):
        fields = dict(body)
        value = fields.pop("value")
        if value is None:
            fields["null_value"] = True
        size = len(value or b"")
        one = SingleMessageMetadata(payload_size=size, sequence_id=7 + number, **fields)
        payload += single_bytes(one) + (value or b"")
    return whole(num_messages_in_batch=len(all_of_them)), payload


def runs(stored: bytes | bytearray, *, by_key: bool = False) -> list[MessageRun]:
    return list(FRAMING.frame(memoryview(stored), batch.read_header(stored), by_key=by_key))


def delivered(run: MessageRun) -> tuple[MessageMetadata, bytes]:
    stored = run.source
    assert isinstance(stored, StoredBatch)
    records = LastOpened().records(stored, run.first, run.next)
    if run.is_split:
        (record,) = records
        head, payload = entry_of_one(stored, record, NOW_MS)
    else:
        head, payload = entry_of_run(stored, records, NOW_MS)
    metadata, rest = read_entry(memoryview(head + payload))
    return MessageMetadata.decode(metadata), bytes(rest)


def nameless(metadata: MessageMetadata) -> dict[str, Any]:
    """All but the producer's name, which is not kept."""
    fields = {name: one for name, one in metadata.__dict__.items() if one not in ([], b"")}
    del fields["producer_name"]
    return fields


@given(body=bodies)
def test_a_single_message_comes_out_as_it_went_in(body: dict[str, Any]) -> None:
    metadata, payload = single(body)
    (run,) = runs(sent(metadata, payload))
    assert run.is_split
    got, value = delivered(run)
    assert (nameless(got), value) == (nameless(metadata), payload)


@given(all_of_them=st.lists(bodies, min_size=1, max_size=4), codec=st.sampled_from(Codec))
def test_a_batch_comes_out_as_it_went_in(all_of_them: list[dict[str, Any]], codec: Codec) -> None:
    metadata, payload = batched(all_of_them)
    (run,) = runs(sent(metadata, payload, codec))
    assert not run.is_split
    got, value = delivered(run)
    assert nameless(got) == nameless(metadata)
    count = len(all_of_them)
    expected, found = each_single(memoryview(payload), count), each_single(memoryview(value), count)
    for (want, body), (have, same) in zip(expected, found, strict=True):
        assert (have, bytes(same)) == (want, bytes(body))


def test_messages_that_came_one_by_one_keep_their_own_ids_and_times() -> None:
    entries = [
        open_entry(
            memoryview(
                MessageMetadata(
                    producer_name="p", sequence_id=5 + number, publish_time=NOW_MS + number
                ).encode()
            ),
            memoryview(b"%d" % number),
            LIMIT,
        )
        for number in range(3)
    ]
    assert all(entry.is_plain for entry in entries)
    stored = batch_of_all(entries, None)
    batch.stamp(stored, 40, 1)
    (run,) = runs(stored)
    assert (run.first, run.next, run.is_split) == (40, 43, True)
    for number in range(3):
        got, value = delivered(run._replace(first=40 + number, next=41 + number))
        assert (got.sequence_id, got.publish_time, value) == (
            5 + number,
            NOW_MS + number,
            b"%d" % number,
        )


def test_kafkas_readers_see_key_value_headers_and_time() -> None:
    body = {"partition_key": "k", "properties": [KeyValue(key="a", value="ö")], "value": b"v"}
    stored = sent(*single(body))
    header = batch.read_header(stored)
    assert (header.producer_id, header.producer_epoch) == (PULSAR_ORIGIN, BatchFlag.SINGLES)
    (record,) = open_batch(stored, LIMIT)
    assert record[:5] == (0, NOW_MS, b"k", b"v", (("a", "ö".encode()),))
    (timed,) = open_batch(sent(*single({"event_time": 5, "value": None})), LIMIT)
    assert (timed.timestamp_ms, timed.value) == (5, None)
    (ordered,) = open_batch(
        sent(*single({"partition_key": "p", "ordering_key": b"o", "value": b""})), LIMIT
    )
    assert (ordered.key, ordered.value) == (b"o", b"")


@pytest.mark.parametrize(
    "metadata",
    [
        whole(uuid="p-7", num_chunks_from_msg=2, total_chunk_msg_size=9, chunk_id=0),
        whole(
            encryption_keys=[EncryptionKey(key="me", value=b"\x00\xff")],
            encryption_param=b"iv",
            num_messages_in_batch=3,
            compression=1,
            uncompressed_size=99,
        ),
    ],
    ids=["chunk", "encrypted"],
)
def test_what_only_a_consumer_can_open_is_kept_as_it_is(metadata: MessageMetadata) -> None:
    stored = sent(metadata, b"\x01\x02\x03")
    (run,) = runs(stored)
    assert run.next - run.first == (metadata.num_messages_in_batch or 1)
    assert delivered(run) == (metadata, b"\x01\x02\x03")


def test_rare_fields_are_kept() -> None:
    rare = whole(schema_version=bytes(7) + b"\x01", deliver_at_time=NOW_MS + 5000)
    (run,) = runs(sent(rare, b"v"))
    assert run.deliver_at_ms == NOW_MS + 5000
    got, _ = delivered(run)
    assert nameless(got) == nameless(rare)
    large = MessageMetadata(producer_name="p", sequence_id=1 << 40, publish_time=NOW_MS)
    (run,) = runs(sent(large, b"v"))
    assert delivered(run)[0].sequence_id == 1 << 40


KAFKA = [
    Record(0, 1_700_000_000_000, b"text", b"v", (("h", b"1"), ("n", None), ("b", b"\xff"))),
    Record(1, 1_700_000_000_001, b"\xff", None),
    Record(2, 1_700_000_000_002, None, b""),
]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_a_kafka_producer_is_one_entry(codec: Codec) -> None:
    (run,) = runs(build_batch(KAFKA, base_offset=0, codec=codec))
    got, payload = delivered(run)
    assert (got.num_messages_in_batch, got.publish_time) == (3, 1_700_000_000_000)
    (one, a), (two, b), (three, c) = each_single(memoryview(payload), 3)
    assert (one.partition_key, one.ordering_key, one.event_time, bytes(a)) == (
        "text",
        b"text",
        1_700_000_000_000,
        b"v",
    )
    values = {pair.key: pair.value for pair in one.properties}
    assert values == {"h": "1", "n": "", "b": "\ufffd"}
    assert (two.partition_key, two.partition_key_b64_encoded, two.ordering_key) == (
        "/w==",
        True,
        b"\xff",
    )
    assert (two.null_value, bytes(b)) == (True, b"")
    assert (three.partition_key, three.null_value, bytes(c)) == (None, None, b"")


def test_a_kafka_record_without_a_time_was_published_now() -> None:
    (run,) = runs(build_batch([Record(0, -1, None, b"v")], base_offset=0))
    got, payload = delivered(run)
    ((one, _),) = each_single(memoryview(payload), 1)
    assert (got.publish_time, one.event_time) == (NOW_MS, None)


def test_large_batches_of_kafka_producers_are_cut() -> None:
    records = [Record(number, 1, None, b"") for number in range(2500)]
    stored = build_batch(records, base_offset=0)
    assert [(run.first, run.next) for run in runs(stored)] == [
        (0, 1000),
        (1000, 2000),
        (2000, 2500),
    ]


def test_stretches_between_gaps_are_entries_and_keep_their_ids() -> None:
    bodies = [{"partition_key": f"{n}", "value": b"%d" % n} for n in range(5)]
    stored = sent(*batched(bodies))
    left = compacted.left_of(
        memoryview(stored), batch.read_header(stored), {b"2": 9}, 0, LIMIT
    ).data
    first, second = runs(bytes(left))
    assert [(run.first, run.next) for run in (first, second)] == [(0, 2), (3, 5)]
    assert delivered(second)[0].num_messages_in_batch == 2
    nothing = compacted.without_records(batch.read_header(stored))
    assert runs(nothing) == []


def test_by_key_no_entry_has_two_keys() -> None:
    mixed = sent(*batched([{"partition_key": key, "value": b""} for key in "aab"]))
    (run,) = runs(mixed, by_key=True)
    assert run.is_split
    assert run.hashes[0] == run.hashes[1] != run.hashes[2]
    same = sent(*batched([{"partition_key": "a", "value": b""}] * 3))
    (run,) = runs(same, by_key=True)
    assert (run.is_split, len(run.hashes)) == (False, 1)


@pytest.mark.parametrize(
    ("metadata", "payload", "error"),
    [
        (whole(compression=9), b"", InvalidRecord.__base__),
        (whole(compression=1, uncompressed_size=1 << 30), b"x", BatchTooLarge),
        (whole(compression=1, uncompressed_size=10), b"x", CorruptBatch),
        (whole(compression=2, uncompressed_size=10), b"x", CorruptBatch),
        (whole(compression=3, uncompressed_size=10), b"x", CorruptBatch),
        (whole(compression=4, uncompressed_size=10), b"x", CorruptBatch),
        (whole(), bytes(LIMIT + 1), BatchTooLarge),
        (whole(num_messages_in_batch=0), b"", InvalidRecord),
        (whole(num_messages_in_batch=-1), b"", InvalidRecord),
        (whole(num_messages_in_batch=1 << 31), b"", InvalidRecord),
        (whole(txnid_most_bits=1, txnid_least_bits=1), b"", InvalidRequest),
        (whole(marker_type=1), b"", InvalidRequest),
        (whole(event_time=1 << 63), b"", InvalidRecord),
        (whole(partition_key="?", partition_key_b64_encoded=True), b"", InvalidRecord),
    ],
)
def test_what_cannot_be_stored_is_refused(
    metadata: MessageMetadata, payload: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        sent(metadata, payload)


def test_keys_are_looked_for_in_every_message() -> None:
    def keyed(bodies: list[dict[str, Any]]) -> bool:
        metadata, payload = batched(bodies)
        return has_keys(open_entry(memoryview(metadata.encode()), memoryview(payload), LIMIT))

    assert keyed([{"partition_key": "k", "value": b""}])
    assert not keyed([{"partition_key": "k", "value": b""}, {"value": b""}])


def numbered(first: int, count: int) -> bytes:
    """A batch of messages that are their own sequence ids."""
    parts = []
    for number in range(first, first + count):
        value = b"%d" % number
        one = SingleMessageMetadata(payload_size=len(value), sequence_id=number)
        parts += [single_bytes(one), value]
    return b"".join(parts)


@pytest.mark.parametrize("first", [0, 7, 1 << 31, (1 << 43) + 5, named.LARGEST_SEQUENCE - 4])
def test_what_was_stored_before_is_left_out_of_a_batch(first: int) -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=first, publish_time=NOW_MS, num_messages_in_batch=5
    )
    entry = open_entry(memoryview(metadata.encode()), memoryview(numbered(first, 5)), LIMIT)
    who = named.producer_of("p")
    made = batch_of_all([entry], None, Sender(who, first + 4, stored=first + 1))
    header = batch.read_header(made)
    assert (named.producer(header), named.last_sequence(header)) == (who, first + 4)
    stored = StoredBatch(memoryview(made), header)
    assert stored.is_pulsars
    assert stored.is_batch
    records = open_batch(made, LIMIT)
    assert [record.value for record in records] == [b"%d" % (first + n) for n in (2, 3, 4)]
    assert [stored.sequence_id(record.offset) for record in records] == [
        first + 2,
        first + 3,
        first + 4,
    ]


def test_a_batch_that_contradicts_its_own_sequence_ids_is_refused() -> None:
    metadata = whole(num_messages_in_batch=2)
    entry = open_entry(memoryview(metadata.encode()), memoryview(numbered(0, 2)), LIMIT)
    with pytest.raises(InvalidRecord):
        batch_of_all([entry], None, Sender(named.producer_of("p"), 90, stored=8))


def unusual(*_: object) -> tuple[int, int, int]:
    """The fast loops leave everything to the slower functions."""
    return splice.UNUSUAL, 0, 0


@given(parts=st.lists(bodies, min_size=1, max_size=6), codec=st.sampled_from(Codec))
def test_the_fast_loops_make_the_same_bytes(parts: list[dict[str, Any]], codec: Codec) -> None:
    """In and out, for messages of Pulsar."""
    metadata, payload = batched(parts)
    fast = sent(metadata, payload, codec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splice, "to_records", unusual)
        slow = sent(metadata, payload, codec)
    assert fast == slow
    check_out(fast)


def check_out(made: bytes | bytearray) -> None:
    """The fast way out is the slow one, for all of a batch and for its pieces."""
    header = batch.read_header(made)
    stored = StoredBatch(memoryview(made), header)
    records = open_batch(made, LIMIT)
    opened, cut = LastOpened(), header.base_offset + (header.last_offset_delta + 1) // 2
    after = header.next_offset
    for first, end in ((0, cut), (cut, after), (0, after)):
        if first < end:
            slow = entry_of_run(stored, records[first:end], NOW_MS)
            assert opened.entry(stored, first, end, NOW_MS) == slow
    opened = LastOpened()
    for first, end in ((0, cut), (cut, after), (0, after)):
        singles = [
            (record.offset, entry_of_one(stored, record, NOW_MS)) for record in records[first:end]
        ]
        assert opened.singles(stored, first, end, NOW_MS) == singles


kafka_records = st.lists(
    st.tuples(
        st.integers(-1, 1 << 45),
        st.one_of(st.none(), st.binary(max_size=8), texts.map(str.encode)),
        st.one_of(st.none(), st.binary(max_size=20)),
        st.lists(st.tuples(texts, st.one_of(st.none(), st.binary(max_size=5))), max_size=2),
    ),
    min_size=1,
    max_size=5,
)


@given(rows=kafka_records, codec=st.sampled_from(Codec), sequence=st.integers(-1, 9))
def test_the_fast_loop_sends_records_of_kafka_as_the_slow_one_does(
    rows: list[Any], codec: Codec, sequence: int
) -> None:
    records = [
        Record(number, time_ms, key, value, tuple(headers))
        for number, (time_ms, key, value, headers) in enumerate(rows)
    ]
    check_out(build_batch(records, base_offset=0, codec=codec, base_sequence=sequence))


def test_the_fast_loops_are_used() -> None:
    """Not only named: a usual batch does not reach the slower functions."""
    payload = numbered(0, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries_in, "each_single", None)
        made = sent(whole(num_messages_in_batch=3), payload)
        patch.setattr(entries_out, "entry_of_run", None)
        stored = StoredBatch(memoryview(made), batch.read_header(made))
        assert LastOpened().entry(stored, 0, 3, NOW_MS)

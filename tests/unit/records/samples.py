"""Batches for tests: strategies for records, and tools that break batches on purpose."""

from collections.abc import Sequence

from hypothesis import strategies as st

from kafscale.records.batch import HEADER, read_header, sign
from kafscale.records.record import Record, build_batch

NOW_MS = 1_700_000_000_000

_bytes = st.binary(max_size=40) | st.binary(max_size=3).map(lambda part: part * 60)
_headers = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3
).map(tuple)
_time_steps = st.sampled_from([0, 1, -1, 63, 64, 8_192, 2**21, 2**28, 2**40])


@st.composite
def mixed_records(draw: st.DrawFn) -> list[Record]:
    """A few records of every form."""
    fields = st.tuples(_time_steps, st.none() | _bytes, st.none() | _bytes, _headers)
    rows = draw(st.lists(fields, min_size=1, max_size=25))
    return [
        Record(offset, NOW_MS + step * offset, key, value, headers)
        for offset, (step, key, value, headers) in enumerate(rows)
    ]


@st.composite
def even_records(draw: st.DrawFn) -> list[Record]:
    """Many records in runs of one form: what producers mostly send."""
    rows: list[Record] = []
    for _ in range(draw(st.integers(1, 4))):
        key = draw(st.none() | _bytes)
        value = draw(st.none() | _bytes | st.just(b"x" * 9_000))
        headers = draw(_headers)
        step = draw(_time_steps)
        count = draw(st.sampled_from([1, 2, 4, 5, 70, 140]))
        rows += [Record(0, NOW_MS + step * n, key, value, headers) for n in range(count)]
    return [record._replace(offset=offset) for offset, record in enumerate(rows)]


def numbered(count: int, value: bytes = b"value", key: bytes | None = b"key") -> list[Record]:
    """Records of one size, apart from what their number adds."""
    return [Record(n, NOW_MS + n // 10, key, value) for n in range(count)]


def resigned(batch: bytes | bytearray, **fields: int) -> bytes:
    """The batch with some header fields changed and a checksum that agrees."""
    changed = bytearray(batch)
    changed[: HEADER.size] = HEADER.pack(*read_header(batch)._replace(**fields))
    sign(changed)
    return bytes(changed)


def with_payload(payload: bytes, count: int, **fields: int) -> bytes:
    """A batch whose records are these bytes, whatever they are."""
    template = build_batch(numbered(1), base_offset=0)
    return resigned(
        template[: HEADER.size] + payload,
        batch_length=HEADER.size - 12 + len(payload),
        record_count=count,
        last_offset_delta=count - 1,
        **fields,
    )


def join(parts: Sequence[bytes]) -> bytes:
    """One record of these parts, its length in front."""
    body = b"".join(parts)
    assert len(body) < 64
    return bytes([len(body) * 2]) + body

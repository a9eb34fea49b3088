"""The name and the sequence id of a batch, in the fields of its header."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.records import named
from kafscale.records.batch import read_header
from kafscale.records.record import Record, build_batch

SEQUENCES = st.integers(0, named.LARGEST_SEQUENCE)


@given(name=st.text(min_size=1), last=SEQUENCES, count=st.integers(1, 50), flags=st.integers(0, 15))
def test_a_header_keeps_who_sent_a_batch_and_up_to_where(
    name: str, last: int, count: int, flags: int
) -> None:
    who = named.producer_of(name)
    fields = named.fields_of(who, last, count, flags)
    records = [Record(number, 0, None, b"v", ()) for number in range(count)]
    header = read_header(build_batch(records, base_offset=0, **fields._asdict()))
    assert header.is_named
    assert header.has_producer
    assert named.producer(header) == who
    assert named.last_sequence(header) == last
    assert header.producer_epoch & 15 == flags
    if last >= count - 1:
        assert named.first_sequence(header) == last - count + 1


def test_no_other_producer_id_is_a_name() -> None:
    header = read_header(build_batch([Record(0, 0, None, b"v", ())], base_offset=0))
    for number in (-2, -1, 0, 1 << 62, (1 << 63) - 1):
        assert not header._replace(producer_id=number).is_named

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats.producers import WINDOW, BatchMark, ProducerSnapshot, ProducerTable
from kafscale.model.errors import (
    DuplicateSequence,
    OutOfOrderSequence,
    StaleProducerEpoch,
    UnknownProducer,
)
from kafscale.records import batch, named
from kafscale.records.batch import BatchHeader
from tests.unit.log.log_harness import make_batch

ALL = 1 << 62
TEMPLATE = batch.read_header(make_batch(b"x", producer=7))


def header(sequence: int, count: int = 1, epoch: int = 0, producer: int = 7) -> BatchHeader:
    return TEMPLATE._replace(
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_offset_delta=count - 1,
        record_count=count,
    )


def filled(*sequences: int, committed_to: int = ALL) -> ProducerTable:
    table = ProducerTable()
    for sequence in sequences:
        assert table.judge(header(sequence)) is None
        table.remember(header(sequence), 100 + sequence, 1000 + sequence, committed_to)
    return table


def test_a_batch_that_fits_is_new_and_the_same_again_is_a_duplicate() -> None:
    table = filled(0, 1, 2)
    assert table.judge(header(3)) is None
    assert table.judge(header(1)) == 101


def test_the_last_five_batches_are_remembered() -> None:
    table = filled(*range(8))
    assert [table.judge(header(n)) for n in range(3, 8)] == [103, 104, 105, 106, 107]
    with pytest.raises(DuplicateSequence):
        table.judge(header(2))


def test_a_gap_is_refused() -> None:
    with pytest.raises(OutOfOrderSequence):
        filled(0, 1).judge(header(3))


def test_an_unknown_producer_begins_at_zero() -> None:
    with pytest.raises(UnknownProducer):
        ProducerTable().judge(header(1))
    assert ProducerTable().judge(header(0)) is None


def test_an_unknown_producer_that_may_go_on_is_followed_from_then_on() -> None:
    table = ProducerTable()
    assert table.judge(header(3), accepts_unknown_sequences=True) is None
    table.remember(header(3), 0, 0, 0)
    with pytest.raises(OutOfOrderSequence):
        table.judge(header(5), accepts_unknown_sequences=True)
    assert table.judge(header(4), accepts_unknown_sequences=True) is None
    with pytest.raises(OutOfOrderSequence):
        table.judge(header(2), accepts_unknown_sequences=True)  # never was here


def test_a_batch_of_other_bounds_is_no_duplicate() -> None:
    table = filled(0, 1, 2)
    with pytest.raises(DuplicateSequence):
        table.judge(header(1, count=2))


def test_an_older_epoch_is_refused_and_a_newer_one_begins_at_zero() -> None:
    table = ProducerTable()
    table.remember(header(0, epoch=3), 0, 0, ALL)
    with pytest.raises(StaleProducerEpoch):
        table.judge(header(1, epoch=2))
    with pytest.raises(OutOfOrderSequence):
        table.judge(header(1, epoch=4))
    assert table.judge(header(0, epoch=4)) is None


def test_sequences_go_on_at_zero_after_the_largest() -> None:
    table = ProducerTable()
    largest = 2**31 - 1
    table.restore([ProducerSnapshot(7, 0, 0, [BatchMark(largest - 1, largest - 1, 50)])])
    across = header(largest, count=3)
    assert table.judge(across) is None
    table.remember(across, 51, 0, ALL)
    assert table.judge(header(2)) is None
    assert table.judge(across) == 51
    with pytest.raises(DuplicateSequence):
        table.judge(header(largest - 5))
    with pytest.raises(OutOfOrderSequence):
        table.judge(header(3))


def test_a_snapshot_holds_committed_batches_only() -> None:
    table = filled(*range(4), committed_to=0)
    assert table.snapshot(102) == [
        ProducerSnapshot(7, 0, 1003, [BatchMark(0, 0, 100), BatchMark(1, 1, 101)])
    ]
    assert table.snapshot(100) == []


def test_five_committed_batches_are_known_while_any_number_waits() -> None:
    table = filled(*range(6))
    for sequence in range(6, 20):
        table.remember(header(sequence), 100 + sequence, 0, 106)
    (row,) = table.snapshot(106)
    assert [mark.first_offset for mark in row.marks] == [101, 102, 103, 104, 105]
    assert table.judge(header(19)) == 119


def test_a_new_epoch_that_waits_does_not_hide_the_committed_one() -> None:
    table = filled(0, 1)
    table.remember(header(0, epoch=1), 102, 0, 102)
    table.remember(header(1, epoch=1), 103, 0, 102)
    (row,) = table.snapshot(102)
    assert (row.epoch, [mark.first_offset for mark in row.marks]) == (0, [100, 101])
    (row,) = table.snapshot(103)
    assert (row.epoch, [mark.first_offset for mark in row.marks]) == (1, [102])
    table.remember(header(2, epoch=1), 104, 0, 104)
    assert table.snapshot(102) == []  # asked for a past that is over


def test_two_new_epochs_that_wait_do_not_hide_it_either() -> None:
    table = filled(0)
    table.remember(header(0, epoch=1), 101, 0, 101)
    table.remember(header(0, epoch=2), 102, 0, 101)
    assert [row.epoch for row in table.snapshot(101)] == [0]
    assert [row.epoch for row in table.snapshot(103)] == [2]


def test_silent_producers_are_forgotten() -> None:
    table = filled(0)
    table.remember(header(0, producer=8), 200, 5000, ALL)
    table.expire(1001)
    assert len(table) == 1
    with pytest.raises(UnknownProducer):
        table.judge(header(1))
    assert table.judge(header(1, producer=8)) is None


def test_a_producer_whose_first_batch_was_refused_must_send_it_again_first() -> None:
    table = ProducerTable()
    table.expect(7, 0, 0, 0)
    table.expect(7, 0, 1, 0)
    with pytest.raises(OutOfOrderSequence):
        table.judge(header(1))
    assert table.judge(header(0)) is None
    assert table.snapshot(ALL) == []


def test_what_the_bucket_knows_of_a_producer_counts_more_than_what_was_refused() -> None:
    table = filled(0, 1)
    table.expect(7, 0, 1, 0)
    assert table.judge(header(1)) == 101
    assert table.judge(header(2)) is None


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30), st.data())
def test_a_snapshot_and_the_rest_replayed_are_the_same_as_all_replayed(
    counts: list[int], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(counts)))
    whole, first, second = ProducerTable(), ProducerTable(), ProducerTable()
    recent: deque[BatchMark] = deque(maxlen=WINDOW)
    sequence = 0
    for at, count in enumerate(counts):
        if at == cut:
            second.restore(first.snapshot(ALL))
        one = header(sequence, count)
        for table in (whole, second if at >= cut else first):
            assert table.judge(one) is None
            table.remember(one, sequence, at, ALL)
        recent.append(BatchMark(sequence, sequence + count - 1, sequence))
        sequence += count
    if cut == len(counts):
        second.restore(first.snapshot(ALL))
    expected = [ProducerSnapshot(7, 0, len(counts) - 1, list(recent))]
    assert whole.snapshot(ALL) == second.snapshot(ALL) == expected


def of_name(last: int, count: int = 1, name: str = "p") -> BatchHeader:
    fields = named.fields_of(named.producer_of(name), last, count, 0)
    return header(0, count)._replace(**fields._asdict())


def named_table(*lasts: int, name: str = "p", committed_to: int = ALL) -> ProducerTable:
    table = ProducerTable()
    for offset, last in enumerate(lasts):
        assert table.judge(of_name(last, name=name)) is None
        table.remember(of_name(last, name=name), offset, 1000 + offset, committed_to)
    return table


@given(st.lists(st.integers(0, named.LARGEST_SEQUENCE), max_size=40), st.data())
def test_a_named_producer_repeats_what_is_not_above_its_last_sequence_id(
    sent: list[int], data: st.DataObject
) -> None:
    """Against a model: one number per name. Snapshots and a replay of the rest change nothing."""
    table, highest, offsets = ProducerTable(), -1, {}
    for offset, last in enumerate(sent):
        earlier = table.judge(of_name(last))
        if last <= highest:
            assert earlier is not None
            assert offsets[earlier] >= last
        else:
            assert earlier is None
            table.remember(of_name(last), offset, 1000, data.draw(st.integers(0, offset)))
            highest, offsets[offset] = last, last
        if data.draw(st.booleans()):
            opened = ProducerTable()
            opened.restore(table.snapshot(up_to_offset=offset + 1))
            table = opened
    mark = table.last_of_name(named.producer_of("p"))
    assert (-1 if mark is None else mark.last_sequence) == highest


def test_names_do_not_share_sequence_ids() -> None:
    table = named_table(5, 9)
    assert table.judge(of_name(3, name="q")) is None
    assert table.judge(of_name(9)) == 1
    assert table.judge(of_name(4)) == 0


def test_a_snapshot_does_not_tell_of_names_whose_batches_wait() -> None:
    table = named_table(1, 2, 3, committed_to=0)
    (kept,) = table.snapshot(up_to_offset=2)
    assert kept.marks[-1].last_sequence == 2
    assert not table.snapshot(up_to_offset=0)


def test_names_are_forgotten_after_a_silence_and_when_there_are_too_many() -> None:
    table = named_table(1, 2)
    table.expire(before_ms=1001)
    assert len(table) == 1
    table.expire(before_ms=1002)
    assert not len(table)
    for number in range(10_001):
        table.remember(of_name(0, name=f"n{number}"), number, 0, ALL)
    assert len(table) == 10_000
    assert table.last_of_name(named.producer_of("n0")) is None

"""The rule about records: every way to break one, by hand."""

import pytest

from kafscale.model.errors import InvalidRecord
from kafscale.records.framing import check_record
from tests.support.walks import FAST_WALKS
from tests.unit.records.oracles import check_one_by_one
from tests.unit.records.samples import join

# attributes, timestamp delta, offset delta; key "k"; value "v"; no headers
HEAD, KEY, VALUE, NO_HEADERS = b"\x00\x00\x00", b"\x02k", b"\x02v", b"\x00"
NULL = b"\x01"
WALKS = {"rule": check_one_by_one, **FAST_WALKS}

SOUND = {
    "plain": [HEAD, KEY, VALUE, NO_HEADERS],
    "null key": [HEAD, NULL, VALUE, NO_HEADERS],
    "null value": [HEAD, KEY, NULL, NO_HEADERS],
    "empty key": [HEAD, b"\x00", VALUE, NO_HEADERS],
    "unknown attributes": [b"\xff\x00\x00", KEY, VALUE, NO_HEADERS],
    "two headers": [HEAD, KEY, VALUE, b"\x04", b"\x02h\x02x", b"\x02i\x01"],
    "an empty header name": [HEAD, KEY, VALUE, b"\x02", b"\x00\x00"],
    "a needlessly long key length": [HEAD, b"\x82\x80\x80\x80\x00k", VALUE, NO_HEADERS],
    "a needlessly long offset delta": [b"\x00\x00\x80\x00", KEY, VALUE, NO_HEADERS],
    "a needlessly long header count": [HEAD, KEY, VALUE, b"\x80\x00"],
    "a timestamp of ten bytes": [b"\x00" + b"\xff" * 9 + b"\x01\x00", KEY, VALUE, NO_HEADERS],
}

BROKEN = {
    "wrong offset delta": [b"\x00\x00\x02", KEY, VALUE, NO_HEADERS],
    "negative offset delta": [b"\x00\x00\x01", KEY, VALUE, NO_HEADERS],
    "a byte too many": [HEAD, KEY, VALUE, NO_HEADERS, b"\x00"],
    "no header count": [HEAD, KEY, VALUE],
    "no value": [HEAD, KEY],
    "nothing": [],
    "only attributes": [b"\x00"],
    "key length -2": [HEAD, b"\x03", VALUE, NO_HEADERS],
    "value length -2": [HEAD, KEY, b"\x03", NO_HEADERS],
    "key beyond the record": [HEAD, b"\x40k", VALUE, NO_HEADERS],
    "value beyond the record": [HEAD, KEY, b"\x40v", NO_HEADERS],
    "key of 2 GiB": [HEAD, b"\xfe\xff\xff\xff\x0fk", VALUE, NO_HEADERS],
    "key length that does not end": [HEAD, b"\x80\x80\x80\x80\x80\x00", VALUE, NO_HEADERS],
    "timestamp of eleven bytes": [b"\x00" + b"\x80" * 10 + b"\x00\x00", KEY, VALUE, NO_HEADERS],
    "header count -1": [HEAD, KEY, VALUE, b"\x01"],
    "more headers than bytes": [HEAD, KEY, VALUE, b"\x04", b"\x00\x00"],
    "header count of 2 billion": [HEAD, KEY, VALUE, b"\xfe\xff\xff\xff\x0f"],
    "fewer headers than bytes": [HEAD, KEY, VALUE, b"\x02", b"\x00\x00", b"\x00\x00"],
    "null header name": [HEAD, KEY, VALUE, b"\x02", b"\x01\x00"],
    "header value length -2": [HEAD, KEY, VALUE, b"\x02", b"\x00\x03"],
    "header value beyond the record": [HEAD, KEY, VALUE, b"\x02", b"\x00\x40"],
}


@pytest.mark.parametrize("check", WALKS.values(), ids=WALKS)
@pytest.mark.parametrize("parts", SOUND.values(), ids=SOUND)
def test_sound_records_pass(check, parts: list[bytes]) -> None:
    check(join(parts), 0, 1, False)


@pytest.mark.parametrize("check", WALKS.values(), ids=WALKS)
@pytest.mark.parametrize("parts", BROKEN.values(), ids=BROKEN)
def test_broken_records_are_refused(check, parts: list[bytes]) -> None:
    with pytest.raises(InvalidRecord):
        check(join(parts), 0, 1, False)
    with pytest.raises(InvalidRecord):  # also when there are bytes to run over into
        check(join(parts) + b"\x00" * 99, 0, 1, False)


@pytest.mark.parametrize("check", WALKS.values(), ids=WALKS)
def test_a_cut_off_record_is_refused(check) -> None:
    record = join(SOUND["two headers"])
    for size in range(len(record)):
        with pytest.raises(InvalidRecord):
            check(record[:size], 0, 1, False)


@pytest.mark.parametrize("check", WALKS.values(), ids=WALKS)
@pytest.mark.parametrize("length", [b"\x01", b"\x05", b"\x00", b"\xff\xff\xff\xff\x0f"])
def test_a_record_s_length_is_positive_and_within_the_data(check, length: bytes) -> None:
    with pytest.raises(InvalidRecord):
        check(length + b"\x00" * 50, 0, 1, False)


@pytest.mark.parametrize("check", WALKS.values(), ids=WALKS)
def test_a_compacted_topic_wants_keys(check) -> None:
    check(join(SOUND["empty key"]), 0, 1, True)
    with pytest.raises(InvalidRecord):
        check(join(SOUND["null key"]), 0, 1, True)


@pytest.mark.parametrize("check", WALKS.values(), ids=WALKS)
def test_the_count_must_be_what_the_bytes_hold(check) -> None:
    two = join(SOUND["plain"]) + join([b"\x00\x00\x02", KEY, VALUE, NO_HEADERS])
    check(two, 0, 2, False)
    for count in (1, 3):
        with pytest.raises(InvalidRecord):
            check(two, 0, count, False)


def test_the_outline_names_the_bytes_that_decide_the_form() -> None:
    data = b"#" + join(SOUND["two headers"])
    outline = check_record(data, 1, 0, False)
    assert outline.end == len(data)
    #                      length key value count name value name value
    assert outline.lengths == [1, 5, 7, 9, 10, 12, 14, 16]
    assert (outline.time_at, outline.delta_at, outline.delta_end) == (3, 4, 5)

"""Sizes, durations and the words for yes and no."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.settings.values import Limit, PositiveSize, Seconds, Size, read_value


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        (0, 0),
        ("4096", 4096),
        ("4k", 4000),
        ("4KB", 4000),
        ("4Ki", 4096),
        ("512Mi", 512 * 1024**2),
        ("512MiB", 512 * 1024**2),
        ("4MB", 4_000_000),
        ("1.5Gi", 3 * 1024**3 // 2),
        (" 2 Gi ", 2 * 1024**3),
        ("1T", 10**12),
    ],
)
def test_sizes_are_read_in_decimal_and_binary_units(raw: object, size: int) -> None:
    assert read_value(Size, raw) == size


@pytest.mark.parametrize(
    "raw", ["", "Mi", "-1", "4 Zi", "1.5", "1e6", "0x10", True, [4], "9999999Ti"]
)
def test_what_is_no_size_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="expected a size such as"):
        read_value(Size, raw)


def test_a_positive_size_is_not_zero_and_a_limit_may_be_minus_one() -> None:
    with pytest.raises(ValueError, match="above zero"):
        read_value(PositiveSize, "0")
    assert read_value(Limit, -1) == read_value(Limit, "-1") == -1
    assert read_value(Limit, "1Ki") == 1024
    with pytest.raises(ValueError, match="-1 for no limit"):
        read_value(Limit, -2)


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("10m", 600),
        ("2h", 7200),
        ("7d", 604800),
        (5, 5),
        ("1.5s", 1.5),
    ],
)
def test_durations_are_read_as_seconds(raw: object, seconds: float) -> None:
    assert read_value(Seconds, raw) == seconds


@pytest.mark.parametrize("raw", ["0", "-1s", "1y", "s", "", "10M", True])
def test_what_is_no_duration_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="expected a duration above zero"):
        read_value(Seconds, raw)


@pytest.mark.parametrize("word", ["1", "true", "Yes", "ON", True, 1])
def test_words_for_yes(word: object) -> None:
    assert read_value(bool, word) is True


@pytest.mark.parametrize("word", ["0", "false", "No", "off", False, 0])
def test_words_for_no(word: object) -> None:
    assert read_value(bool, word) is False


def test_a_list_is_written_with_commas_or_as_a_list() -> None:
    assert read_value(list[str], " a, b,,c ") == ["a", "b", "c"]
    assert read_value(list[str], ["a", "b"]) == ["a", "b"]


@given(st.text(max_size=12), st.sampled_from([Size, Limit, Seconds, int, bool, list[str]]))
def test_any_text_is_read_or_refused_with_an_expectation(raw: str, kind: type) -> None:
    try:
        read_value(kind, raw)
    except ValueError as refused:
        text = str(refused)
    else:
        text = "expected nothing more"
    assert text.startswith("expected ")

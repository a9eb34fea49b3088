import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats import keys

positions = st.integers(0, 10**20 - 1)
FOLDER = "default/orders/0"


@given(positions)
def test_a_flush_is_named_by_its_base_alone(base: int) -> None:
    name = keys.parse_segment(keys.segment(FOLDER, base))
    assert name == keys.SegmentName(base, None, False)
    index = keys.parse_segment(keys.index_of(keys.segment(FOLDER, base)))
    assert index == keys.SegmentName(base, None, True)


@given(positions, st.integers(1, 10**6), st.integers(0, 2**32 - 1))
def test_rewritten_history_is_never_taken_for_a_flush(base: int, generation: int, token: int):
    name = keys.rewritten_name(base, generation, token)
    assert keys.parse_segment(name) == keys.SegmentName(base, generation, False)
    assert name != keys.segment_name(base)


@given(positions)
def test_a_generation_is_read_off_its_name(generation: int) -> None:
    assert keys.parse_generation(keys.manifest(FOLDER, generation)) == generation
    assert keys.parse_segment(keys.manifest(FOLDER, generation)) is None


@given(st.lists(positions, min_size=2, unique=True), st.integers(0, 2**32 - 1))
def test_names_sort_as_their_numbers_and_stay_in_the_bounds_of_their_kind(
    numbers: list[int], token: int
) -> None:
    numbers.sort()
    segments = [keys.segment(FOLDER, base) for base in numbers]
    manifests = [keys.manifest(FOLDER, generation) for generation in numbers]
    assert segments == sorted(segments)
    assert manifests == sorted(manifests)
    assert all(keys.segments_from(FOLDER, numbers[0]) < key for key in segments)
    assert not keys.segments_from(FOLDER, numbers[1]) < segments[0]
    rewritten = f"{FOLDER}/{keys.rewritten_name(numbers[0], 7, token)}"
    for key in [*segments, rewritten, keys.index_of(rewritten)]:
        assert key < keys.segments_before(FOLDER)
        assert not keys.manifest(FOLDER, 0) < key < keys.manifests_before(FOLDER)
    for key in manifests:
        assert key < keys.manifests_before(FOLDER)
        assert not keys.segments_from(FOLDER, 0) < key < keys.segments_before(FOLDER)


@pytest.mark.parametrize(
    "name",
    [
        "segment-1.kfs",
        "segment-00000000000000000001.kfs.tmp",
        "segment-00000000000000000001-1.kfs",
        "xsegment-00000000000000000001.kfs",
        "manifest-1",
        "readme",
        "",
    ],
)
def test_other_names_are_no_objects_of_a_log(name: str) -> None:
    assert keys.parse_segment(f"{FOLDER}/{name}") is None
    assert keys.parse_generation(f"{FOLDER}/{name}") is None


def test_a_later_incarnation_has_its_own_folder() -> None:
    first = keys.topic_folder("default", "orders")
    later = keys.topic_folder("default", "orders", "abc")
    assert keys.log_folder(first, 0) == "default/orders/0"
    assert keys.log_folder(later, 0) == "default/orders@abc/0"
    assert keys.descriptor_folder("default", "orders") == first


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("a/b/orders/0/segment-00000000000000000001.kfs", "orders"),
        ("a/b/orders@abc/0/manifest-00000000000000000001", "orders"),
        ("a/b/orders", "orders"),
        ("a/b/@snapshots/x", None),
        ("a/b", None),
        ("a/bc/orders/0", None),
        ("", None),
    ],
)
def test_a_key_tells_its_topic(key: str, topic: str | None) -> None:
    assert keys.topic_of("a/b", key) == topic


def test_only_rewritten_history_has_names_of_its_own() -> None:
    assert keys.is_rewritten(f"{FOLDER}/{keys.rewritten_name(5, 2, 7)}")
    for key in (
        keys.segment(FOLDER, 5),
        keys.index_of(keys.segment(FOLDER, 5)),
        keys.manifest(FOLDER, 5),
        keys.descriptor(FOLDER, 5),
    ):
        assert not keys.is_rewritten(key)

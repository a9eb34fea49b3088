from hypothesis import given
from hypothesis import strategies as st

from kafscale.metadata.etcd.ranges import is_empty, range_of

NAMES = st.text(st.sampled_from("a/\x7f\x80ÿ\U0010ffff"), max_size=4)


@given(NAMES, NAMES, NAMES.filter(bool))
def test_a_range_holds_exactly_the_keys_of_a_prefix_behind_another(
    prefix: str, after: str, key: str
) -> None:
    begin, end = range_of(prefix, after)
    name = key.encode()
    inside = begin <= name and (end == b"\0" or name < end) and not is_empty(begin, end)
    assert inside == (key.startswith(prefix) and (not after or name > after.encode()))

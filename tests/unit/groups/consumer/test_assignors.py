from hypothesis import given
from hypothesis import strategies as st

from kafscale.groups.consumer.assignors import (
    ASSIGNORS,
    Target,
    TopicPartitions,
    assign_range,
    assign_uniform,
)
from tests.unit.groups.consumer.bench import places, topic_id


def _topics(**counts: int) -> dict[str, TopicPartitions]:
    return {name: TopicPartitions(topic_id(name), count) for name, count in counts.items()}


def test_range_gives_neighbours_and_the_same_numbers_of_topics_of_equal_size() -> None:
    both = frozenset({"x", "y"})
    target = assign_range({"a": both, "b": both}, _topics(x=3, y=3), {})
    assert target["a"] == places("x", 0, 1) | places("y", 0, 1)
    assert target["b"] == places("x", 2) | places("y", 2)


def test_uniform_moves_as_little_as_it_can() -> None:
    alike = frozenset({"x"})
    before: Target = {"a": places("x", 0, 1, 2, 3, 4, 5)}
    target = assign_uniform({"a": alike, "b": alike, "c": alike}, _topics(x=6), before)
    assert target["a"] == places("x", 0, 1)
    after = assign_uniform({"a": alike, "b": alike}, _topics(x=6), target)
    assert target["a"] < after["a"]
    assert target["b"] < after["b"]


def test_uniform_gives_topics_with_few_subscribers_first() -> None:
    subscriptions = {"a": frozenset({"x", "y"}), "b": frozenset({"y"})}
    target = assign_uniform(subscriptions, _topics(x=2, y=2), {})
    assert target == {"a": places("x", 0, 1), "b": places("y", 0, 1)}


_MEMBERS = st.dictionaries(
    st.sampled_from("abcdef"), st.frozensets(st.sampled_from("xyz")), max_size=6
)
_COUNTS = st.fixed_dictionaries({}, optional={name: st.integers(0, 7) for name in "xyz"})


@given(_MEMBERS, _MEMBERS, _COUNTS, st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_with_a_subscriber_is_assigned_to_one_of_them(
    before: dict[str, frozenset[str]],
    now: dict[str, frozenset[str]],
    counts: dict[str, int],
    name: str,
) -> None:
    topics = _topics(**counts)
    assign = ASSIGNORS[name]
    target = assign(now, topics, assign(before, topics, {}))
    assert set(target) == set(now)
    subscribed = frozenset().union(*now.values()) if now else frozenset()
    wanted = {place for topic in subscribed & set(counts) for place in places(topic, *range(counts[topic]))}  # fmt: skip # noqa: E501
    assigned = [place for held in target.values() for place in held]
    assert sorted(assigned) == sorted(wanted)
    for member, held in target.items():
        assert {topic for topic, _ in held} <= {topic_id(topic) for topic in now[member]}


@given(st.integers(1, 9), st.integers(0, 40), st.integers(1, 9))
def test_members_that_subscribe_alike_get_equally_many(
    members: int, partitions: int, before: int
) -> None:
    topics = _topics(x=partitions)
    alike = frozenset({"x"})
    former = assign_uniform({str(n): alike for n in range(before)}, topics, {})
    target = assign_uniform({str(n): alike for n in range(members)}, topics, former)
    sizes = sorted(map(len, target.values()))
    assert sizes[-1] - sizes[0] <= 1

"""Which broker a name belongs to: even shares, few moves, the same answer everywhere."""

import subprocess
import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafscale.engine.cluster.placement import NO_BROKER, Placement
from kafscale.metadata.keys import MemberList, MemberRow
from tests.support.examples import examples

NAMES = [f"default/topic-{number % 40}/{number // 40}" for number in range(2000)]


def placement(*ids: int, generation: int = 1) -> Placement:
    brokers = tuple(MemberRow(number, 100 + number) for number in ids)
    return Placement(MemberList(generation=generation, brokers=brokers))


def owners(placed: Placement) -> dict[str, int]:
    return {name: placed.owner(name) for name in NAMES}


def test_without_members_no_broker_owns_anything() -> None:
    assert placement().owner("default/t/0") == NO_BROKER
    assert placement().coordinator("g") == NO_BROKER


def test_every_broker_gets_about_its_share() -> None:
    for size in (2, 3, 5, 12):
        counts = Counter(owners(placement(*range(size))).values())
        share = len(NAMES) / size
        assert set(counts) == set(range(size))
        assert all(0.7 * share < count < 1.3 * share for count in counts.values())


def test_groups_are_spread_over_the_same_members() -> None:
    placed = placement(0, 1, 2)
    counts = Counter(placed.coordinator(f"group-{number}") for number in range(900))
    assert all(200 < counts[who] < 400 for who in (0, 1, 2))


members = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=8, unique=True)


@examples(30)
@given(members, st.data())
def test_when_a_broker_goes_only_what_it_had_moves(ids: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(ids))
    before = owners(placement(*ids))
    after = owners(placement(*(number for number in ids if number != gone)))
    moved = {name for name in NAMES if before[name] != after[name]}
    assert moved == {name for name in NAMES if before[name] == gone}


@examples(30)
@given(members, st.integers(0, 2**31 - 1))
def test_when_a_broker_comes_things_move_to_it_only(ids: list[int], comer: int) -> None:
    before = owners(placement(*ids))
    after = owners(placement(*{*ids, comer}))
    assert all(after[name] in (before[name], comer) for name in NAMES)


@examples(30)
@given(members, st.randoms(use_true_random=False))
def test_the_order_of_members_and_their_incarnations_do_not_matter(
    ids: list[int], dice: "st.Random"
) -> None:
    shuffled = list(ids)
    dice.shuffle(shuffled)
    brokers = tuple(MemberRow(number, 7) for number in shuffled)
    again = Placement(MemberList(generation=9, brokers=brokers))
    assert owners(again) == owners(placement(*ids))


def test_another_process_gives_the_same_answers() -> None:
    script = (
        "from kafscale.engine.cluster.placement import Placement\n"
        "from kafscale.metadata.keys import MemberRow, MemberList\n"
        "brokers = tuple(MemberRow(number, 1) for number in (0, 7, 9))\n"
        "p = Placement(MemberList(generation=1, brokers=brokers))\n"
        "print([p.owner(f'default/t/{n}') for n in range(50)], p.coordinator('g'))\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    placed = placement(0, 7, 9)
    expected = [placed.owner(f"default/t/{number}") for number in range(50)]
    assert said == {f"{expected} {placed.coordinator('g')}\n"}


GOLDEN_LOGS = [1, 1, 0, 2, 2, 1, 0, 2, 1, 0, 1, 1]
GOLDEN_GROUPS = [0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 2, 0]


def test_a_few_answers_are_written_down_so_that_they_never_change() -> None:
    placed = placement(0, 1, 2)
    assert [placed.owner(f"default/orders/{number}") for number in range(12)] == GOLDEN_LOGS
    assert [placed.coordinator(f"group-{number}") for number in range(12)] == GOLDEN_GROUPS


def test_only_the_very_incarnation_counts() -> None:
    placed = placement(3)
    assert placed.has(3, 103)
    assert not placed.has(3, 104)
    assert not placed.has(4, 103)

"""The address view of the command: the partition remapper's examples, one by one, and its laws."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.cli.main import main
from kafscale.proxy.addresses import AddressRow, addresses, remapper_of
from kafscale.proxy.settings import load_mapping
from kafscale.settings.values import ConfigError
from kafscale.virtual.arithmetic import Remapper

CONFIG = """\
mapping:
  offset_range: 1000000000000
  topics:
    orders:
      virtual_partitions: 100
      physical_partitions: 10
    "metrics.*":
      virtual_partitions: 50
      physical_partitions: 5
"""
# Virtual partition, physical partition, virtual group.
PARTITIONS = [
    (0, 0, 0),
    (1, 1, 0),
    (5, 5, 0),
    (9, 9, 0),
    (10, 0, 1),
    (11, 1, 1),
    (50, 0, 5),
    (99, 9, 9),
]
# Virtual partition and offset, physical partition and offset.
OFFSETS = [
    (0, 0, 0, 0),
    (0, 100, 0, 100),
    (10, 0, 0, 1_000_000_000_000),
    (10, 100, 0, 1_000_000_000_100),
    (50, 500, 0, 5_000_000_000_500),
    (99, 0, 9, 9_000_000_000_000),
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "proxy.yaml"
    file.write_text(CONFIG)
    return file


def shown(capsys: pytest.CaptureFixture[str], config: Path, *words: str) -> list[int]:
    assert main(["proxy", "address", *words, "--config", str(config)]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["VIRTUAL", "OFFSET", "PHYSICAL", "GROUP", "ADDRESS"]
    return [int(number) for number in row.split()]


@pytest.mark.parametrize(("virtual", "physical", "group"), PARTITIONS)
def test_the_examples_of_partitions(
    capsys: pytest.CaptureFixture[str], config: Path, virtual: int, physical: int, group: int
) -> None:
    address = group * 10**12
    row = [virtual, 0, physical, group, address]
    assert shown(capsys, config, "orders", str(virtual)) == row
    assert shown(capsys, config, "orders", f"{physical}:{address}", "--physical") == row


@pytest.mark.parametrize(("virtual", "offset", "physical", "address"), OFFSETS)
def test_the_examples_of_offsets(
    capsys: pytest.CaptureFixture[str],
    config: Path,
    virtual: int,
    offset: int,
    physical: int,
    address: int,
) -> None:
    row = [virtual, offset, physical, virtual // 10, address]
    assert shown(capsys, config, "orders", f"{virtual}:{offset}") == row
    assert shown(capsys, config, "orders", f"{physical}:{address}", "--physical") == row


def test_the_example_of_one_physical_partition(config: Path) -> None:
    remapper = remapper_of(load_mapping(config), "orders")
    assert [*remapper.virtual_partitions_for_physical(0)] == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
    ranges = [remapper.offset_range_for_virtual(one) for one in (0, 10, 20, 90)]
    assert ranges == [(at * 10**12, (at + 1) * 10**12 - 1) for at in (0, 1, 2, 9)]


def test_a_pattern_has_formulas_of_its_own(config: Path) -> None:
    assert remapper_of(load_mapping(config), "metrics-cpu") == Remapper(50, 5, 10**12)


@pytest.mark.parametrize(
    ("topic", "place", "is_physical", "why"),
    [
        ("other", "0", False, "other has no mapping"),
        ("orders", "x", False, "expected PARTITION or PARTITION:OFFSET, found x"),
        ("orders", "100", False, "above 99"),
        ("orders", "-1", False, "negative"),
        ("orders", "0:1000000000000", False, "beyond its range"),
        ("orders", "10:0", True, "above 9"),
        ("orders", "0:10000000000000", True, "behind the last"),
    ],
)
def test_what_has_no_address_is_said(
    config: Path, topic: str, place: str, is_physical: bool, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        addresses(remapper_of(load_mapping(config), topic), [place], from_physical=is_physical)


@st.composite
def places(draw: st.DrawFn) -> tuple[Remapper, list[tuple[int, int]]]:
    physical, ratio = draw(st.integers(1, 50)), draw(st.integers(1, 50))
    remapper = Remapper(physical * ratio, physical, draw(st.integers(1 << 20, 1 << 40)))
    place = st.tuples(
        st.integers(0, physical * ratio - 1), st.integers(0, remapper.offset_range - 1)
    )
    return remapper, draw(st.lists(place, min_size=2, max_size=20, unique=True))


@given(places())
def test_every_place_comes_back_and_no_two_have_one_address(
    drawn: tuple[Remapper, list[tuple[int, int]]],
) -> None:
    remapper, some = drawn
    rows = addresses(remapper, [f"{one}:{offset}" for one, offset in some], from_physical=False)
    there = [f"{row.physical_partition}:{row.address}" for row in rows]
    assert addresses(remapper, there, from_physical=True) == rows
    assert [(row.virtual_partition, row.offset) for row in rows] == some
    assert len(set(there)) == len(some)
    assert isinstance(rows[0], AddressRow)

"""The benchmarks of many partitions on few logs, in short: what they count holds, time does not."""

import pytest

from benchmarks import lane_memory, lane_reads, lane_throughput, lanes, partitions
from tests.e2e.conftest import AGAINST
from tests.support import etcd

pytestmark = pytest.mark.skipif(AGAINST == "apache", reason="about logs that partitions share")

DEDICATED, VIRTUAL, _ = partitions.LAYOUTS


def test_partitions_on_few_logs_cost_the_puts_of_the_logs() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    count = 40
    apart = partitions.measure(DEDICATED, count, seconds=0.5)
    together = partitions.measure(VIRTUAL, count, seconds=0.5)
    assert apart.puts_a_turn >= count
    # One flush of each log for a turn; two where a turn falls between flushes.
    assert 0 < together.puts_a_turn <= 2 * partitions.LOGS


def test_a_thousand_partitions_are_written_and_read_like_six() -> None:
    shapes = lane_throughput.shapes(50)[:2]
    rows = lane_throughput.measure(shapes, megabytes=4, runs=1)
    assert [(row.shape, row.way) for row in rows] == [
        (shape, way) for shape in shapes for way in lane_throughput.WAYS
    ]
    assert all(row.mb_s > 0 and row.cpu_s_gb > 0 for row in rows)


def test_an_idle_partition_takes_little_memory_and_is_there_after_a_kill() -> None:
    configs = lanes.LAYOUTS["virtual"]
    few = lane_memory.measure(lane_memory.FEW, 1, configs, "files", openings=1)
    lots = lane_memory.measure(3000, 1, configs, "files", openings=1)
    each = (lots.rss_mb - few.rss_mb) * 1e6 / (3000 - lane_memory.FEW)
    assert each <= lanes.BYTES_A_PARTITION


@pytest.mark.parametrize("value_bytes", [100, 16_000])
def test_reading_one_partition_reads_its_own_bytes(value_bytes: int) -> None:
    found = lane_reads.measure(value_bytes, flushes=4, with_spark=False)
    assert [row.when for row in found] == ["flushes", "rolled up"]
    assert all(row.ratio <= lanes.READ_RATIO for row in found)
    # Ninety-nine others are in the same objects.
    assert all(row.object_bytes > 90 * row.lane_bytes for row in found)


def test_a_bar_that_is_missed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    fast = lane_throughput.Row(lane_throughput.Shape("6 ordinary", 6), "produce", 100.0, 1.0)
    slow = lane_throughput.Row(lane_throughput.Shape("many", 100, 3), "produce", 80.0, 1.3)
    assert lanes.compare([fast, slow])
    assert not lanes.compare([fast, slow._replace(cpu_s_gb=1.05)])
    said = capsys.readouterr().out
    assert (said.count("MISSED"), said.count("ok")) == (1, 1)

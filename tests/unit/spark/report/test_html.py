"""The page with pictures: colours, and what is said where there is nothing to show."""

from kafscale.spark.report import html
from kafscale.spark.report.statistics import PartitionStats, Prices, Statistics, TopicStats


def topic(name: str, size: int) -> TopicStats:
    return TopicStats(name, name, 100, [PartitionStats(name, 0, 0, 1, records=1, bytes=size)])


def test_topics_have_colours_of_their_own_the_largest_first() -> None:
    topics = [topic("small", 1), topic("large", 9), topic("middle", 5)]
    colours = html._colours(topics)
    assert list(colours) == ["large", "middle", "small"]
    assert len(set(colours.values())) == 3


def test_a_page_tells_no_groups_from_unknown_groups() -> None:
    found = Statistics("here", "now", [topic("t", 1)], Prices(), lags_from="looked there")
    assert "No group has read" not in html._lags(found)
    found.lags_known = True
    assert "No group has read these topics; looked there." in html._lags(found)

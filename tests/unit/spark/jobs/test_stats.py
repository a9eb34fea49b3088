"""Statistics of a bucket, for programs and for people."""

import argparse
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kafscale.metadata import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Put
from kafscale.model.errors import InvalidRequest
from kafscale.records.compression import Codec
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import stats
from kafscale.spark.report.statistics import Prices
from tests.unit.spark.topics import HOUR_MS, Topic


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects", partitions=2)
    made.flush(0, [b"x" * 3000] * 40, step_ms=HOUR_MS)  # large enough to tell no times itself
    made.flush(0, [b"y"] * 10, step_ms=HOUR_MS, codec=Codec.LZ4)
    made.flush(1, [b"z"] * 5)
    Topic(tmp_path / "objects", "<empty> & co".replace("<", "").replace("> & ", "."), 1)
    return made


def run(topic: Topic, *words: str, dry_run: bool = False) -> Report:
    parser = argparse.ArgumentParser()
    stats.add_arguments(parser)
    return stats.run(Context(topic.bucket, dry_run=dry_run), parser.parse_args(words))


def test_every_partition_has_a_line(topic: Topic) -> None:
    report = run(topic, "--target-bytes", "100000")
    lines = {(row["topic"], row["partition"]): row for row in report.rows}
    first = lines["orders", 0]
    assert (first["records"], first["objects"], first["small"]) == (50, 2, 1)
    assert (first["first"], first["last"]) == (
        "2025-11-15T00:00:00.000Z",
        "2025-11-17T01:00:00.000Z",
    )
    assert first["codecs"] == "lz4+none"
    assert lines["orders", 1]["end"] == 5
    assert lines["empty.co", 0]["first"] is None
    assert report.facts["records"] == 55
    assert report.facts["objects_too_many"] == 0
    assert any("the lag of groups is not known" in note for note in report.notes)


async def test_lags_are_read_beside_the_broker_that_has_the_file(
    topic: Topic, tmp_path: Path
) -> None:
    metadata = EmbeddedMetadataStore(tmp_path / "metadata.db")
    value = keys.CommittedOffset(offset=20, committed_at="now", topic_id="")
    key = keys.group_offset("billing/eu", "orders", 0)
    await metadata.commit([Put(key, keys.encode(value))])
    report = run(topic)
    assert "group billing/eu: 30 behind in orders, partition 0" in report.notes
    await metadata.aclose()
    with pytest.raises(InvalidRequest, match="no such file"):
        run(topic, "--metadata", str(tmp_path / "nothing.db"))


def test_a_dry_run_reads_no_contents(topic: Topic) -> None:
    report = run(topic, dry_run=True)
    assert report.dry_run
    assert report.facts["objects"] == 3
    assert report.facts["requests"] == 3
    assert run(topic, "--sample", "0").facts["bytes_sampled"] == 0


def test_prices_are_options() -> None:
    assert stats.prices_of("") == Prices()
    assert stats.prices_of("storage=0.01, get=1") == Prices(0.01, 0.005, 1.0)
    with pytest.raises(InvalidRequest, match="there are storage, put, get"):
        stats.prices_of("disk=1")
    with pytest.raises(InvalidRequest, match="write put="):
        stats.prices_of("put=cheap")


class Outline(HTMLParser):
    """What a page consists of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_stands_alone_and_follows_the_readers_colours(
    topic: Topic, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    run(topic, "--html", str(file))
    text = file.read_text("utf-8")
    page = Outline()
    page.feed(text)
    assert page.tags.count("svg") >= 3
    assert len(page.ids) == len(set(page.ids)), "ids are unique on a page"
    assert all(link.startswith("#") for link in page.links), "nothing is loaded from elsewhere"
    assert "prefers-color-scheme: dark" in text
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "var(--c1)" in drawn
    assert not re.search(r"#0[0-9a-f]0[0-9a-f]0[0-9a-f]", drawn), "no stand-in colour is left"

"""SQL over topics."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kafscale.spark
from kafscale.model.errors import InvalidRequest, UnknownTopic
from kafscale.spark.source.sql import run_query
from tests.unit.spark.topics import Topic


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects")
    made.flush(0, [b'{"id":%d,"name":"n%d"}' % (at, at) for at in range(3000)])
    made.flush(1, [b'{"id":1}', b"junk", None])
    Topic(tmp_path / "objects", "web-logs.v1").flush(0, [b"GET /"])
    return made


def test_topics_are_tables(spark: SparkSession, topic: Topic) -> None:
    topics = kafscale.spark.register_topics(spark, store=topic.url)
    counted = topics.sql("select partition, count(*) from topic.orders group by 1 order by 1")
    assert [tuple(row) for row in counted.collect()] == [(0, 3000), (1, 3)]
    joined = topics.sql(
        "select l.value from topic.web-logs.v1 l join topic.orders o "
        "on l.offset = o.offset and o.partition = 1"
    )
    assert [bytes(row[0]) for row in joined.collect()] == [b"GET /"]
    plain = spark.sql("select count(*) from `topic.web-logs.v1`")
    assert plain.collect()[0][0] == 1


def test_values_have_fields(spark: SparkSession, topic: Topic) -> None:
    topics = kafscale.spark.register_topics(
        spark, topic.url, ["orders"], valueFormat="json", valueSchema="id bigint, name string"
    )
    names, rows = run_query(
        spark,
        topics,
        "select offset, value.name from topic.orders "
        "where partition = 0 and value.id in (7, 9) order by 1",
    )
    assert (names, list(rows)) == (["offset", "name"], [[7, "n7"], [9, "n9"]])
    bad = topics.sql("select count(*) from topic.orders where value is null").collect()
    assert bad[0][0] == 2


def test_a_wrong_query_is_one_sentence(spark: SparkSession, topic: Topic) -> None:
    topics = kafscale.spark.register_topics(spark, topic.url, ())
    with pytest.raises(InvalidRequest, match=r"UNRESOLVED_COLUMN.*nope"):
        run_query(spark, topics, "select nope from topic.orders")
    spark.catalog.dropTempView("orders")  # other tests of this session may have made one
    with pytest.raises(UnknownTopic, match=r"no table 'orders'; .* is topic\.orders$"):
        run_query(spark, topics, "select 1 from orders")


def test_the_command_prints_rows_and_nothing_else(topic: Topic) -> None:
    """A LIMIT ends workers while they write: the user does not hear of it."""
    ran = subprocess.run(
        [sys.executable, "-m", "kafscale.cli.main", "sql",
         "select offset, value from topic.orders where partition = 0 limit 2",
         "--store", topic.url, "--output", "json", "--conf", "spark.driver.memory=1g"],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 2
    assert '"value":"{\\"id\\":' in ran.stdout
    assert ran.stderr == ""

"""Queries of the console: what can only look at topics passes, everything else is refused."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafscale.spark.errors import QueryRefused
from kafscale.spark.source.closed_sql import check_closed
from kafscale.spark.source.sql import register_topics, run_query
from tests.unit.spark.topics import Topic

HARMLESS = [
    "select * from `topic.orders` limit 3",
    """with big as (select key, value from `topic.orders` where offset > 3)
       select upper(key) k, count(*) n from big group by 1 having count(*) > 1 order by n desc""",
    """select a.key, sum(length(a.value)) over (partition by a.partition order by a.offset
         rows between 1 preceding and current row)
       from `topic.orders` a left join `topic.b` b using (key)
       where a.key in (select key from `topic.c`) and exists (select 1 from `topic.d`)
         and a.offset between 1 and (select max(offset) from `topic.e`)""",
    "select case when value is null then 1 else cast(offset as int) end from `topic.orders`",
    "select headers[0].key, x.y from `topic.a` lateral view explode(headers) t as x",
    "select 1 union all select 2",
]
HARMFUL = [
    "select * from csv.`/etc/passwd`",
    "select * from parquet.`s3://other/x`",
    "select reflect('java.lang.System', 'getenv', 'AWS_SECRET_ACCESS_KEY')",
    "select java_method('java.lang.Runtime', 'getRuntime')",
    "select a from `topic.a` where key = (select reflect('java.lang.System', 'getenv', 'X'))",
    "with t as (select * from text.`/etc/passwd`) select * from t",
    "select transform(key) using 'cat' from `topic.a`",
    "select * from read_files('/etc/passwd')",
    "select key from `topic.a` where exists (select 1 from json.`/x` where reflect('a', 'b') = 1)",
    "select (select input_file_name() from `topic.a`)",
    "select array(reflect('java.lang.System', 'getProperty', 'user.name'))[0]",
    "insert into x select 1",
    "create temporary view v as select 1",
    "add jar 'x.jar'",
    "set spark.sql.ansi.enabled=false",
    "explain select 1",
    "select 1; select 2",
    "describe table x",
    "select rlike(value, '(a+)+$') from `topic.a`",
    "select " + "(" * 6000,
    "select " + "1+" * 4999 + "1",
]


@pytest.mark.parametrize("query", HARMLESS)
def test_a_select_over_topics_passes(spark: SparkSession, query: str) -> None:
    check_closed(spark, query)


@pytest.mark.parametrize("query", HARMFUL)
def test_everything_else_is_refused(spark: SparkSession, query: str) -> None:
    with pytest.raises(QueryRefused):
        check_closed(spark, query)


def test_a_closed_query_gives_rows(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(tmp_path / "objects", "queried")
    topic.flush(0, [b"v1", b"v2"])
    topics = register_topics(spark, topic.url, (), valueFormat="string")
    query = "select offset, upper(value) from topic.queried order by offset"
    _, rows = run_query(spark, topics, query, 10, is_closed=True)
    assert list(rows) == [[0, "V1"], [1, "V2"]]
    with pytest.raises(QueryRefused):
        run_query(spark, topics, "select * from text.`/etc/passwd`", 10, is_closed=True)

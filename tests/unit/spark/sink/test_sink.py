"""What a sink says before anything runs."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from kafscale.model.errors import InvalidRecord, InvalidRequest
from kafscale.spark.sink import producing, sink
from tests.unit.spark.loaded import bucket_in, numbered, records_of


def schema(text: str) -> StructType:
    kinds = [one.split(":", 1) for one in text.split()]
    return StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in kinds
            ],
        }
    )


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("key:string", "no column 'value'"),
        ("value:integer", "int, not string or binary"),
        ("value:string partition:string", "'partition' is string, not int"),
        ("value:string timestamp:date", "'timestamp' is date"),
        ("value:string headers:string", "'headers' is string"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(columns: str, complaint: str) -> None:
    with pytest.raises(InvalidRecord, match=complaint):
        sink.check_schema(schema(columns), has_topic=True)


def test_a_topic_is_an_option_or_a_column() -> None:
    with pytest.raises(InvalidRecord, match="which topic"):
        sink.check_schema(schema("value:binary"), has_topic=False)
    sink.check_schema(schema("value:binary topic:string timestamp:long"), has_topic=False)


def test_a_way_must_be_chosen_and_topics_are_not_overwritten() -> None:
    there = {"kafka.bootstrap.servers": "there", "topic": "t"}
    with pytest.raises(InvalidRequest, match="say where"):
        sink.batch_writer({"topic": "t"}, schema("value:string"), False)
    with pytest.raises(InvalidRequest, match="append"):
        sink.batch_writer(there, schema("value:string"), True)
    with pytest.raises(InvalidRequest, match="through brokers"):
        sink.stream_writer({"store": "s3://b", "topic": "t"}, schema("value:string"), False)
    with pytest.raises(InvalidRequest, match="append"):
        sink.stream_writer(there, schema("value:string"), True)
    assert sink.stream_writer(there, schema("value:string"), False) is not None


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ({"kafka.bootstrap.servers": "there", "store": "s3://b"}, "give one of them"),
        ({"kafka.bootstrap.servers": "there", "topics": "t"}, "topics: no option"),
        ({"kafka.bootstrap.servers": "there", "partitions": "3"}, "partitions: no option"),
        ({"store": "s3://b", "topic": "t", "partition": "3"}, "partition: no option"),
    ],
)
def test_options_of_neither_way_are_refused(given: dict[str, str], about: str) -> None:
    with pytest.raises(InvalidRequest, match=about):
        sink.read_options(given)


def test_sparks_own_options_are_left_to_it() -> None:
    given = {"kafka.bootstrap.servers": " there ", "checkpointLocation": "/x", "kafka.acks": "all"}
    assert sink.read_options(given)["kafka.bootstrap.servers"] == "there"


def test_a_setting_no_producer_has_is_told_in_our_words() -> None:
    with pytest.raises(InvalidRequest, match="No such configuration property"):
        producing.produce({"no.such": "1"}, "t", iter([]))


def test_tasks_and_the_driver_make_a_topic_together(tmp_path: Path) -> None:
    bucket = bucket_in(tmp_path)
    options = {"Store": bucket.url, "topic": "t", "PARTITIONS": "2", "topic.retention.ms": "-1"}
    writer = sink.batch_writer(options, schema("value:string"), False)
    messages = [writer.write(iter([numbered(at, 100)])) for at in (0, 100)]
    assert bucket.topics() == []
    writer.abort([])
    assert bucket.topics() == []
    writer.commit([*messages, None])
    assert sum(map(len, records_of(bucket, bucket.topic("t")))) == 200
    with pytest.raises(InvalidRequest, match="partitions"):
        sink.batch_writer({**options, "PARTITIONS": "many"}, schema("value:string"), False)


def test_settings_of_the_producer_are_passed_on_but_idempotence_stays() -> None:
    given = producing.settings_of(
        {
            "kafka.bootstrap.servers": "there",
            "kafka.linger.ms": "7",
            "kafka.enable.idempotence": "false",
            "kafka.key.serializer": "java",
            "topic": "t",
        }
    )
    assert (given["bootstrap.servers"], given["linger.ms"]) == ("there", "7")
    assert given["enable.idempotence"] is True
    assert given["partitioner"] == "murmur2_random"
    assert "key.serializer" not in given
    assert "topic" not in given


def test_rows_become_messages() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "topic": ["a", "b"],
            "value": [b"1", None],
            "partition": pa.array([None, 3], pa.int32()),
            "headers": [[{"key": "h", "value": b"x"}], None],
            "timestamp": pa.array([None, 5], pa.int64()),
        }
    )
    assert list(producing.messages(rows, None)) == [
        {"topic": "a", "value": b"1", "key": None, "headers": [("h", b"x")]},
        {"topic": "b", "value": None, "key": None, "partition": 3, "timestamp": 5},
    ]
    assert [row["topic"] for row in producing.messages(rows, "c")] == ["c", "c"]
    nameless = pa.RecordBatch.from_pydict({"value": ["1"], "topic": pa.array([None], pa.string())})
    with pytest.raises(InvalidRecord, match="null"):
        list(producing.messages(nameless, None))


def test_a_new_topic_may_be_virtual_but_has_logs_of_its_own(tmp_path: Path) -> None:
    bucket = bucket_in(tmp_path)
    options = {"store": bucket.url, "topic": "new", "partitions": "5"}
    writer = sink.BulkWriter(options | {"topic.physical.partitions": "2"})
    writer.commit([writer.write(iter([numbered(0, 100)])), writer.write(iter([numbered(100, 50)]))])
    made = bucket.topic("new")
    assert (made.layout, made.logs, made.configs) == ("virtual", 2, {"physical.partitions": "2"})
    records = records_of(bucket, made)
    assert sum(map(len, records)) == 150
    assert all([row.offset for row in rows] == list(range(len(rows))) for rows in records)
    with pytest.raises(InvalidRequest, match="convert --layout shared"):
        sink.BulkWriter(options | {"topic.storage.placement": "shared"})

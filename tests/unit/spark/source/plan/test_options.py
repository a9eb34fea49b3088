"""Options: the names and defaults of Spark's Kafka source, and what is refused."""

import pytest

from kafscale.spark.source.plan.options import (
    BadOption,
    OffsetRule,
    Options,
    read_options,
    read_shape,
)

STORE = {"store": "file:///x", "subscribe": "t"}


def batch(**given: str) -> Options:
    return read_options({**STORE, **given}, streaming=False)


def test_a_batch_reads_everything_unless_told_otherwise() -> None:
    found = batch()
    assert (found.starting.kind, found.ending.kind) == ("earliest", "latest")
    assert found.fail_on_data_loss
    assert found.shape.table == "records"


def test_a_stream_begins_at_the_end_unless_told_otherwise() -> None:
    assert read_options(STORE, streaming=True).starting.kind == "latest"


def test_names_are_read_in_any_case_and_kafkas_own_are_passed_over() -> None:
    given = {**STORE, "MINPARTITIONS": "3", "kafka.bootstrap.servers": "missing:9092"}
    assert read_options(given, streaming=False).min_partitions == 3


def test_offsets_by_partition() -> None:
    found = batch(startingOffsets='{"t": {"0": 23, "1": -2}}')
    assert found.starting == OffsetRule("offsets", {"t": {0: 23, 1: -2}})


def test_a_time_for_all_goes_before_times_and_offsets() -> None:
    found = batch(startingTimestamp="5", startingOffsets="earliest")
    assert found.starting == OffsetRule("timestamp", timestamp_ms=5)
    found = batch(endingOffsetsByTimestamp='{"t": {"0": 9}}')
    assert found.ending == OffsetRule("timestamps", {"t": {0: 9}})


def test_topics_by_name_pattern_or_partition() -> None:
    assert batch(subscribe="a, b").subscribe == ("a", "b")
    assert batch(subscribe=" a ,, , b,").subscribe == ("a", "b")
    given = {"store": "file:///x", "assign": '{"t": [0, 2]}'}
    assert read_options(given, streaming=False).assign == {"t": (0, 2)}


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ({"colour": "red"}, "colour"),
        ({"store": ""}, "which bucket"),
        ({"subscribe": ""}, "one of subscribe"),
        ({"subscribePattern": "a.*"}, "one of subscribe"),
        ({"subscribe": "", "subscribePattern": "("}, "subscribePattern"),
        ({"startingOffsets": "latest"}, "makes no sense"),
        ({"endingOffsets": "earliest"}, "makes no sense"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "makes no sense"),
        ({"startingOffsets": "{"}, "startingOffsets"),
        ({"startingOffsets": '{"t": 5}'}, "startingOffsets"),
        ({"startingOffsets": '{"t": {"0": 1.5}}'}, "startingOffsets: expected"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "startingOffsets: expected"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets: expected"),
        ({"startingOffset": "earliest"}, "do you mean startingOffsets"),
        ({"subscribe": " , "}, "one of subscribe"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"table": "chairs"}, "table"),
        ({"assign": "[]", "subscribe": ""}, "assign"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"valueFormat": "json"}, "valueSchema"),
        ({"valueFormat": "avro"}, "schemaRegistry"),
        ({"valueFormat": "protobuf"}, "valueSchemaFile"),
        ({"mode": "PERMISSIVE", "badRecords": "null"}, "give one of them"),
        ({"mode": "DROPMALFORMED"}, "mode"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given: dict[str, str], about: str) -> None:
    with pytest.raises(BadOption, match=about):
        batch(**given)


@pytest.mark.parametrize(
    "given", [{"endingOffsets": "latest"}, {"asOf": "monday"}, {"table": "batches"}]
)
def test_a_stream_has_no_end_and_no_past(given: dict[str, str]) -> None:
    with pytest.raises(BadOption):
        read_options({**STORE, **given}, streaming=True)


def test_delays_are_read_with_their_unit() -> None:
    assert batch(maxTriggerDelay="2m").max_trigger_delay_ms == 120_000


def test_bad_records_have_a_name_that_readers_of_json_know() -> None:
    assert read_shape({"mode": "permissive"}).bad_records == "null"
    assert read_shape({"mode": "FAILFAST"}).bad_records == "fail"
    assert read_shape({"badRecords": "column"}).bad_records == "column"
    assert read_shape({}).bad_records == "fail"


def test_a_subject_is_the_first_topics_unless_it_is_given() -> None:
    assert read_shape({"subscribe": "a, b"}).subject == "a-value"
    assert read_shape({"assign": '{"c": [0]}'}).subject == "c-value"
    assert read_shape({"subscribe": "a", "valueSubject": "shop.Order"}).subject == "shop.Order"

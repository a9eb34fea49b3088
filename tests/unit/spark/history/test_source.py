"""Table and log as one: the same rows as the log alone, each once, while exports go on."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kafscale.spark.source.plan.filters import Bounds
from tests.unit.spark.history.reading import Reading
from tests.unit.spark.runner.test_runner import JSON, Place
from tests.unit.spark.topics import T0_MS, Topic
from tests.unit.spark.values.writers import avro_schema

KINDS = ["delta", "iceberg", "parquet"]
DAY_MS = 86_400_000


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "objects")


def by_the_log(topic: Topic) -> list[dict[str, Any]]:
    """The same query where the table cannot stand for the log."""
    name = topic.descriptor.name
    starts = {name: {str(number): -2 for number in range(topic.descriptor.partitions)}}
    reading = Reading(topic.url, name, startingOffsets=json.dumps(starts))
    assert not reading.files
    return reading.rows()


@pytest.mark.parametrize("kind", KINDS)
def test_table_and_log_give_what_the_log_gives(place: Place, kind: str) -> None:
    orders = place.topic("orders", 2, table_format=kind, **JSON)
    orders.flush(0, [b'{"id":%d,"name":"n"}' % at for at in range(20)])
    orders.flush(1, [b'{"id":1}', b"bad", None, b'{"id":2,"name":"x"}'])
    place.run_once()
    orders.flush(0, [b'{"id":100}', None, b"worse"])
    orders.flush(1, [b'{"id":101}'])
    reading = Reading(orders.url, "orders")
    assert len(reading.files) == 2, "one of rows, one of dead letters"
    assert reading.rows() == by_the_log(orders)
    assert len(reading.rows()) == 28


AVRO = {
    "table.value.format": "avro",
    "table.value.schema": avro_schema(id="long", name=["null", "string"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_avro_are_read_from_table_and_log_too(place: Place, kind: str) -> None:
    def written(number: int, name: bytes = b"") -> bytes:
        return bytes([2 * number, 2, 2 * len(name)]) + name if name else bytes([2 * number, 0])

    orders = place.topic("orders", 1, table_format=kind, **AVRO)
    orders.flush(0, [written(1, b"tea"), written(2), None, b"\x02\x02\x50bad"])
    place.run_once()
    orders.flush(0, [written(3, b"milk"), None])
    reading = Reading(orders.url, "orders")
    assert len(reading.files) == 2
    assert reading.rows() == by_the_log(orders)
    values = [row["value"] and tuple(row["value"].values()) for row in reading.rows()]
    assert values == [(1, "tea"), (2, None), None, None, (3, "milk"), None]


def test_values_of_avro_whose_fields_may_all_be_null_are_read_from_the_log(place: Place) -> None:
    schema = avro_schema(id=["null", "long"], name=["null", "string"])
    orders = place.topic("orders", 1, table_format="delta", **AVRO | {"table.value.schema": schema})
    orders.flush(0, [b"\x00\x00"])
    place.run_once()
    reading = Reading(orders.url, "orders", valueFormat="avro", valueSchema=schema)
    assert not reading.files
    assert [row["value"] for row in reading.rows()] == [{"id": None, "name": None}]


def test_rows_that_left_the_log_are_still_in_the_table(place: Place) -> None:
    orders = place.topic("orders", 1, table_format="delta", **JSON)
    orders.flush(0, [b'{"id":%d}' % at for at in range(10)])
    place.run_once()
    orders.forget(0, 10)
    orders.flush(0, [b'{"id":10}'])
    rows = Reading(orders.url, "orders", ["partition", "offset"]).rows()
    assert [row["offset"] for row in rows] == list(range(11))


def test_only_files_of_the_time_asked_for_are_read(place: Place) -> None:
    orders = place.topic("orders", 1, table_format="delta", **JSON)
    for day in range(4):
        orders.flush(0, [b'{"id":1}'] * 5, from_ms=T0_MS + day * DAY_MS)
        place.run_once()
    second_day = Bounds(since_ms=T0_MS + DAY_MS, until_ms=T0_MS + 2 * DAY_MS - 1)
    reading = Reading(orders.url, "orders", ["partition", "offset", "timestamp"], second_day)
    assert len(reading.files) == 1
    assert [row["offset"] for row in reading.rows()] == list(range(5, 10))
    some = Reading(orders.url, "orders", ["partition", "offset"], Bounds(first=3, until=7))
    assert [row["offset"] for row in some.rows()] == list(range(3, 7))


@pytest.mark.parametrize(
    "configs",
    [{"table_mode": "upsert"}, {"table_value_format": "string", "table_value_schema": ""}],
    ids=["upsert", "another form"],
)
def test_the_log_alone_where_the_table_is_something_else(
    place: Place, configs: dict[str, str]
) -> None:
    orders = place.topic("orders", 1, table_format="delta", **{**JSON, **_dotted(configs)})
    orders.flush(0, [b'{"id":1}'], keys_given=[b"k"])
    place.run_once()
    given = {"valueFormat": "json", "valueSchema": JSON["table.value.schema"]}
    reading = Reading(orders.url, "orders", **given)
    assert not reading.files
    assert [row["value"] for row in reading.rows()] == [{"id": 1, "name": None}]


def _dotted(configs: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in configs.items()}


def test_a_name_that_was_used_before_is_read_from_the_log(place: Place) -> None:
    place.topic("orders", 1, table_format="delta", **JSON).flush(0, [b'{"id":1}'])
    place.run_once()
    assert place.bucket is not None
    configs = {"table.format": "delta", **JSON}
    again = Topic(place.folder, "orders", 1, 2, bucket=place.bucket, configs=configs)
    again.flush(0, [b'{"id":7}'])
    place.run_once()
    reading = Reading(again.url, "orders")
    assert [row["value"]["id"] for row in reading.rows()] == [7]


def test_dead_letters_are_an_error_where_bad_records_are(place: Place) -> None:
    orders = place.topic("orders", 1, table_format="delta", **JSON)
    orders.flush(0, [b'{"id":1}', b"bad"])
    place.run_once()
    reading = Reading(orders.url, "orders", badRecords="fail")
    assert not reading.files, "the log says what is wrong with the record"


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_twice_or_missing_while_exports_commit(place: Place, kind: str) -> None:
    orders = place.topic("orders", 2, table_format=kind, **JSON)
    keep_reading(place, orders, rounds=4)


def keep_reading(place: Place, orders: Topic, rounds: int) -> None:
    """Write, export and join files in a thread; read all along."""
    is_done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(rounds):
                orders.flush(0, [b'{"id":%d}' % number, b"bad", b'{"id":9}'])
                orders.flush(1, [b'{"id":1}'] * 5)
                assert place.run_once().failed == 0
        except BaseException as problem:
            failures.append(problem)
        finally:
            is_done.set()

    writer = threading.Thread(target=write)
    writer.start()
    from_files = 0
    while True:
        was_done = is_done.is_set()
        ends = list(orders.ends)
        reading = Reading(orders.url, "orders", ["partition", "offset"])
        from_files += len(reading.files)
        found = [(row["partition"], row["offset"]) for row in reading.rows()]
        assert len(found) == len(set(found)), "a row came twice"
        for partition, end in enumerate(ends):
            offsets = [offset for number, offset in found if number == partition]
            assert offsets == list(range(len(offsets))), "a row is missing"
            assert len(offsets) >= end
        if was_done:
            break
    writer.join()
    assert not failures, failures
    assert from_files > rounds, "the table was never read"

"""Tables that follow the schemas of a registry, in the middle of a topic. No JVM here."""

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafscale.spark.jobs import export
from kafscale.spark.values.formats import Spec, spec_of
from kafscale.spark.values.registry import RegistryError
from tests.unit.spark.jobs.test_export import KINDS, Lake, check, export_now, run_here
from tests.unit.spark.topics import Topic
from tests.unit.spark.values.schema_registry import FakeSchemaRegistry
from tests.unit.spark.values.writers import AvroWriter, ProtobufWriter, avro_schema, message_class

MAYBE = ["null", "string"]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "run_here_or_on_spark", run_here)


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path / "objects")


@pytest.fixture(params=KINDS)
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(tmp_path, request.param)


def avro(registry: FakeSchemaRegistry) -> Spec:
    return spec_of("avro", registry=registry.url)


def cells(lake: Lake, *names: str) -> dict[tuple[int, int], tuple[Any, ...]]:
    return {place: tuple(row[name] for name in names) for place, row in lake.rows().items()}


def test_columns_come_with_the_versions_of_a_subject(
    topic: Topic, lake: Lake, schema_registry: FakeSchemaRegistry
) -> None:
    one = AvroWriter(schema_registry, avro_schema(id="int"))
    two = AvroWriter(schema_registry, avro_schema(id="long", name=MAYBE))
    topic.flush(0, [one(id=1), two(id=2**40, name="two"), None, one(id=3)])
    topic.flush(1, [two(id=5)])
    done = export_now(topic, lake.wish(values=avro(schema_registry)))
    assert (done.rows, done.dead, done.commits) == (5, 0, 1)
    check(topic, lake)
    assert cells(lake, "id", "name") == {
        (0, 0): (1, None),
        (0, 1): (2**40, "two"),
        (0, 2): (None, None),
        (0, 3): (3, None),
        (1, 0): (5, None),
    }


def test_a_schema_that_appears_in_the_middle_adds_its_columns_to_the_table(
    topic: Topic, lake: Lake, schema_registry: FakeSchemaRegistry
) -> None:
    old = AvroWriter(schema_registry, avro_schema(id="long"))
    topic.flush(0, [old(id=1), old(id=2)])
    export_now(topic, lake.wish(values=avro(schema_registry)))
    new = AvroWriter(
        schema_registry,
        avro_schema(id="long", name=MAYBE, tags={"type": "array", "items": "string"}),
    )
    topic.flush(0, [old(id=3), new(id=4, name="four", tags=["a"]), old(id=5)])
    export_now(topic, lake.wish(values=avro(schema_registry)))
    check(topic, lake)
    assert [row for _, row in sorted(cells(lake, "id", "name", "tags").items())] == [
        (1, None, None),
        (2, None, None),
        (3, None, None),
        (4, "four", ["a"]),
        (5, None, None),
    ]


def test_a_schema_number_unknown_at_the_start_is_looked_up_before_anything_is_written(
    topic: Topic, lake: Lake, schema_registry: FakeSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered while the export runs, or under another subject."""
    old = AvroWriter(schema_registry, avro_schema(id="long"))
    topic.flush(0, [old(id=1)])
    other = AvroWriter(schema_registry, avro_schema(id="long", late="string"), topic="elsewhere")
    rounds: list[int] = []

    def meanwhile(
        context: object, units: Sequence[Any], work: Callable[..., Any], **_: object
    ) -> Any:
        rounds.append(len(units))
        return run_here(context, units, work)

    monkeypatch.setattr(export, "run_here_or_on_spark", meanwhile)
    topic.flush(0, [other(id=2, late="yes")])
    done = export_now(topic, lake.wish(values=avro(schema_registry)))
    assert (done.rows, done.dead, done.commits, len(rounds)) == (2, 0, 1, 2)
    assert cells(lake, "id", "late") == {(0, 0): (1, None), (0, 1): (2, "yes")}


def test_schemas_that_do_not_go_with_the_table_make_dead_letters(
    topic: Topic, lake: Lake, schema_registry: FakeSchemaRegistry
) -> None:
    good = AvroWriter(schema_registry, avro_schema(id="int"))
    topic.flush(0, [good(id=1)])
    export_now(topic, lake.wish(values=avro(schema_registry)))
    other = AvroWriter(schema_registry, avro_schema(id="string"))
    wider = AvroWriter(schema_registry, avro_schema(id="long"))
    taken = AvroWriter(schema_registry, avro_schema(_offset="long"))
    topic.flush(
        0, [other(id="x"), good(id=2), wider(id=2), taken(_offset=1), b"\0\0\0\0\x77?", b"bare"]
    )
    done = export_now(topic, lake.wish(values=avro(schema_registry)))
    assert (done.rows, done.dead) == (1, 5)
    check(topic, lake)
    reasons = [row["reason"] for _, row in sorted(lake.rows("_dead_letters").items())]
    assert reasons[0].startswith("schema 2 does not go with the table: column 'id': no column")
    assert "int64 does not fit into int32" in reasons[1]
    assert "the name '_offset' is taken" in reasons[2]
    assert "404" in reasons[3]
    assert reasons[4] == "no schema number"


def test_a_registry_that_is_away_stops_the_export_and_kills_no_letters(
    topic: Topic,
    tmp_path: Path,
    schema_registry: FakeSchemaRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Lake(tmp_path, "parquet")
    topic.flush(0, [AvroWriter(schema_registry, avro_schema(id="long"))(id=1)])
    late = AvroWriter(schema_registry, avro_schema(id="long", more="int"), topic="elsewhere")
    topic.flush(0, [late(id=2, more=1)])

    def breaks(context: object, units: Sequence[Any], work: Callable[..., Any], **_: object) -> Any:
        schema_registry.broken = True
        return run_here(context, units, work)

    with monkeypatch.context() as patched:
        patched.setattr(export, "run_here_or_on_spark", breaks)
        with pytest.raises(RegistryError, match="500"):
            export_now(topic, lake.wish(values=avro(schema_registry)))
    schema_registry.broken = False
    assert export_now(topic, lake.wish(values=avro(schema_registry))).rows == 2
    check(topic, lake)


def test_protobuf_messages_grow_columns_too(
    topic: Topic, lake: Lake, schema_registry: FakeSchemaRegistry
) -> None:
    at = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)
    old = ProtobufWriter(schema_registry, message_class("shop.Order"))
    topic.flush(0, [old(id=1, at=at, place={"city": "Bonn"})])
    spec = spec_of("protobuf", "", "shop.Order", registry=schema_registry.url)
    export_now(topic, lake.wish(values=spec))
    new = ProtobufWriter(schema_registry, message_class("shop.Order", newer=True))
    item = ProtobufWriter(schema_registry, message_class("shop.Item"))
    topic.flush(0, [new(id=2, note="n"), item(id=3), old(id=4)])
    done = export_now(topic, lake.wish(values=spec))
    assert (done.rows, done.dead) == (2, 1)
    assert cells(lake, "id", "at", "place", "note") == {
        (0, 0): (1, at, {"city": "Bonn"}, None),
        (0, 1): (2, None, None, "n"),
        (0, 3): (4, None, None, None),
    }
    (dead,) = lake.rows("_dead_letters").values()
    assert dead["reason"] == "another message than shop.Order"


def test_a_subject_may_be_named(
    topic: Topic, tmp_path: Path, schema_registry: FakeSchemaRegistry
) -> None:
    lake = Lake(tmp_path, "parquet")
    topic.flush(0, [AvroWriter(schema_registry, avro_schema(id="long"), topic="x")(id=1)])
    named = spec_of("avro", registry=schema_registry.url, subject="x-value")
    assert export_now(topic, lake.wish(values=named)).rows == 1
    assert "/subjects/x-value/versions" in schema_registry.asked
    assert lake.read().schema.field("id").type == pa.int64()

"""A registry's answers, also those it should not give."""

import pytest

from kafscale.spark.values import registry
from kafscale.spark.values.registry import NoSuchSchema, RegistryError, UnreadableSchema
from tests.unit.spark.values.schema_registry import FakeSchemaRegistry


def test_a_subject_has_versions_and_a_newest_one(schema_registry: FakeSchemaRegistry) -> None:
    schema_registry.register("a b/c-value", "one")
    schema_registry.register("a b/c-value", "two")
    found = registry.versions(schema_registry.url, "a b/c-value")
    assert [(one.number, one.body) for one in found] == [(1, b"one"), (2, b"two")]
    assert registry.latest(schema_registry.url, "a b/c-value") == found[1]
    assert registry.by_number(schema_registry.url, 1) == found[0]


def test_a_schema_that_was_never_registered_is_not_there(
    schema_registry: FakeSchemaRegistry,
) -> None:
    assert registry.versions(schema_registry.url, "missing-value") == []
    with pytest.raises(NoSuchSchema, match="404"):
        registry.latest(schema_registry.url, "missing-value")
    with pytest.raises(NoSuchSchema):
        registry.by_number(schema_registry.url, 5)


def test_a_registry_that_fails_is_an_error_and_not_an_empty_one(
    schema_registry: FakeSchemaRegistry,
) -> None:
    schema_registry.broken = True
    with pytest.raises(RegistryError, match="500") as failed:
        registry.versions(schema_registry.url, "a")
    assert not isinstance(failed.value, NoSuchSchema)
    with pytest.raises(RegistryError, match="http"):
        registry.latest("file:///etc", "passwd")
    with pytest.raises(RegistryError, match="refused"):
        registry.latest("http://127.0.0.1:1", "a")


def test_schemas_we_cannot_use_say_why(schema_registry: FakeSchemaRegistry) -> None:
    url = schema_registry.url
    schema_registry.register("a", "{}", schemaType="JSON")
    schema_registry.register("a", "{}", references=[{"name": "x", "subject": "x", "version": 1}])
    schema_registry.register("a", 'syntax = "proto3";', schemaType="PROTOBUF")
    for number, reason in ((1, "is json"), (2, "refers to others"), (3, "as text")):
        with pytest.raises(UnreadableSchema, match=reason):
            registry.by_number(url, number)

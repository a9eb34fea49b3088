"""The tables say what Apache Kafka's own schemas say (kafka-python ships them)."""

import warnings
from typing import Any

import pytest

from kafscale.wire.kafka.catalog import APIS, BY_KEY
from kafscale.wire.kafka.schema import NO_UUID, Message, Struct, Wire, fields
from tests.unit.wire.kafka.cases import EVERY_VERSION_OF_KAFKA_PYTHON

# Our default where Kafka's would mislead code that leaves the field out: (message, field).
OWN_DEFAULTS = {
    ("ListOffsetsRequest", "replica_id"): -1,  # 0 would claim to be broker 0
    ("CreatePartitionsRequest", "assignments"): None,  # [] would assign no replica at all
}


# Kafka has two rows of this name, with different fields, in the messages of one API.
OWN_NAMES = {("AlterClientQuotasResponse", "[]EntryData"): "[]EntryResult"}


def schema_of(kind: type[Message]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.protocol.schemas import load_json

        return dict(load_json(kind.__name__))


def span(text: str | None) -> tuple[int, int]:
    """ "3+", "0-7" or "4" as first and last version."""
    if text is None:
        return 1, 0
    first, _, last = text.removesuffix("+").partition("-")
    return int(first), 32767 if text.endswith("+") else int(last or first)


def within(text: str | None, version: int) -> bool:
    first, last = span(text)
    return first <= version <= last


def snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


def type_name(wire: Wire) -> str:
    if wire.element is not None:
        return "[]" + type_name(wire.element)
    return wire.row.__name__ if wire.row is not None else wire.name


def default_of(schema: dict[str, Any], tagged: bool) -> object:
    """What Kafka's generated code starts from; a tagged struct not sent is None with us."""
    kind, given = schema["type"], schema.get("default")
    if kind == "records" or given == "null" or ("fields" in schema and tagged and kind[0] != "["):
        return None
    if kind.startswith("[]"):
        return []
    empty = {"string": "", "bytes": b"", "bool": False, "uuid": NO_UUID}
    if kind in empty:
        return given == "true" if kind == "bool" else given or empty[kind]
    return int(str(given or 0), 0)


def compare(message: str, row: type[Struct], schema: list[dict[str, Any]], version: int) -> None:
    ours = [f for f in fields(row, version) if f.there]
    theirs = [s for s in schema if within(s["versions"], version)]
    assert [f.name for f in ours] == [snake(s["name"]) for s in theirs]
    for field, one in zip(ours, theirs, strict=True):
        where = f"{row.__name__}.{field.name} v{version}"
        named = OWN_NAMES.get((message, one["type"]), one["type"])
        assert type_name(field.wire) == named, where
        assert field.nullable == within(one.get("nullableVersions"), version), where
        tagged = within(one.get("taggedVersions"), version)
        assert field.tag == (one["tag"] if tagged else -1), where
        expected = OWN_DEFAULTS.get((message, field.name), default_of(one, tagged))
        if field.name == "error_message":
            expected = None  # no error has no message; Kafka's code sets that by hand
        assert field.default == expected, where
        inner = field.wire.element.row if field.wire.element else field.wire.row
        if inner is not None:
            compare(message, inner, one["fields"], version)


@pytest.mark.parametrize(("kind", "version"), EVERY_VERSION_OF_KAFKA_PYTHON)
def test_a_table_agrees_with_the_schema_in_every_version(kind: type[Message], version: int) -> None:
    schema = schema_of(kind)
    assert kind.api_key == schema["apiKey"]
    flexible = schema["flexibleVersions"]
    newest = span(schema["validVersions"])[1]
    expected = newest + 1 if flexible == "none" else span(flexible)[0]
    assert kind.flexible_from == expected
    compare(kind.__name__, kind, schema["fields"], version)


def test_the_catalog_has_every_api_once_with_the_promised_versions() -> None:
    promised = {
        "Produce": 12,
        "Fetch": 13,
        "ListOffsets": 11,
        "Metadata": 12,
        "OffsetCommit": 9,
        "OffsetFetch": 9,
        "FindCoordinator": 5,
        "JoinGroup": 9,
        "Heartbeat": 4,
        "LeaveGroup": 5,
        "SyncGroup": 5,
        "DescribeGroups": 6,
        "ListGroups": 5,
        "ApiVersions": 4,
        "CreateTopics": 7,
        "DeleteTopics": 6,
        "InitProducerId": 5,
        "SaslHandshake": 1,
        "ElectLeaders": 2,
        "OffsetDelete": 0,
        "OffsetForLeaderEpoch": 4,
        "DescribeConfigs": 4,
        "AlterConfigs": 2,
        "CreatePartitions": 3,
        "DeleteGroups": 2,
        "IncrementalAlterConfigs": 1,
        "DeleteRecords": 2,
        "DescribeCluster": 1,
        "DescribeLogDirs": 4,
        "DescribeProducers": 0,
        "DescribeAcls": 3,
        "CreateAcls": 3,
        "DeleteAcls": 3,
        "AlterPartitionReassignments": 1,
        "ListPartitionReassignments": 0,
        "DescribeClientQuotas": 1,
        "AlterClientQuotas": 1,
        "DescribeUserScramCredentials": 0,
        "AlterUserScramCredentials": 0,
        "SaslAuthenticate": 2,
        "ShareGroupHeartbeat": 1,
        "ShareGroupDescribe": 1,
        "ShareFetch": 2,
        "ShareAcknowledge": 2,
        "DescribeShareGroupOffsets": 1,
        "AlterShareGroupOffsets": 0,
        "DeleteShareGroupOffsets": 0,
        "CreateDelegationToken": 3,
        "RenewDelegationToken": 2,
        "ExpireDelegationToken": 2,
        "DescribeDelegationToken": 3,
        "DescribeTransactions": 0,
        "ListTransactions": 2,
        "ListConfigResources": 1,
        "AddPartitionsToTxn": 3,
        "AddOffsetsToTxn": 4,
        "EndTxn": 5,
        "TxnOffsetCommit": 5,
        "ConsumerGroupHeartbeat": 1,
        "ConsumerGroupDescribe": 1,
        "DescribeTopicPartitions": 0,
    }
    begin_at_1 = ("DelegationToken", "ShareGroupHeart", "ShareGroupDesc", "ShareFetch", "ShareAck")
    first = {name: int(any(word in name for word in begin_at_1)) for name in promised}
    assert {api.name: api.versions for api in APIS} == {
        n: range(first[n], v + 1) for n, v in promised.items()
    }
    assert len(BY_KEY) == len(APIS)


def test_request_and_response_of_an_api_belong_together() -> None:
    for api in APIS:
        assert api.response.__name__ == f"{api.name}Response"
        assert api.response.api_key == api.request.api_key
        assert api.response.versions == api.request.versions

"""The control port: what clients watch, list, create, change and delete."""

from typing import Any

import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError
from kafscale.wire.fluvio.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafscale.wire.fluvio.messages.change_objects import (
    AddMirror,
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    Status,
    UpdateTopic,
)
from kafscale.wire.fluvio.messages.list_objects import ListRequest
from kafscale.wire.fluvio.messages.objects import (
    Assigned,
    Computed,
    Deduplication,
    Mirrored,
    PartitionObject,
    Segment,
    SpuObject,
    Storage,
    TopicObject,
    TopicSpec,
)
from kafscale.wire.fluvio.messages.watch import DELETE, UPDATE, WatchRequest
from kafscale.wire.fluvio.schema import FluvioTable
from tests.support.fluvio_wire import FluvioConnection, Updates, objects_in

pytestmark = pytest.mark.real_time

V = 19
CREATE, DELETE_API, LIST, WATCH, UPDATE_API = 1001, 1002, 1003, 1004, 1006
KINDS: dict[str, type[FluvioTable]] = {
    "SPU": SpuObject,
    "Partition": PartitionObject,
    "Topic": TopicObject,
}


async def change(
    control: FluvioConnection,
    api: int,
    payload: FluvioTable,
    label: str = "Topic",
    version: int = V,
) -> Status:
    return await control.next(control.ask_about(api, version, label, payload), Status, version)


async def listed(
    control: FluvioConnection, label: str, *, system: bool = False, filters: tuple[str, ...] = ()
) -> dict[str, Any]:
    asked = ListRequest(list(filters), system=system)
    found, payload = await control.payload(control.ask_about(LIST, V, label, asked), V)
    assert found == label
    return {row.name: row for row in objects_in(payload, KINDS[label], V)}


class Watcher:
    def __init__(self, control: FluvioConnection, label: str) -> None:
        self._control, self._kind = control, KINDS[label]
        self._number = control.ask_about(WATCH, V, label, WatchRequest())

    async def next(self) -> Updates:
        _, payload = await self._control.payload(self._number, V)
        return Updates(payload, self._kind, V)


async def test_a_client_is_told_which_versions_there_are(control: FluvioConnection) -> None:
    answer = await control.ask(18, 2, ApiVersionsRequest(), ApiVersionsResponse)
    offered = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert offered == dict.fromkeys((1001, 1002, 1003, 1004, 1006), (11, 19))
    assert tuple(map(int, answer.platform_version.split("."))) >= (0, 9, 0)


@pytest.mark.parametrize("version", [11, 12, 15, 16, 17, 18, 19])
async def test_a_watch_begins_with_all_objects_in_every_version(
    control: FluvioConnection, broker: InProcessBroker, version: int
) -> None:
    await broker.engine.topics.create("orders", 2, {})
    for label, names in (
        ("SPU", {"spu-0"}),
        ("Partition", {"consumer-offset-0", "orders-0", "orders-1"}),
        ("Topic", {"consumer-offset", "orders"}),
    ):
        number = control.ask_about(WATCH, version, label, WatchRequest())
        found, payload = await control.payload(number, version)
        updates = Updates(payload, KINDS[label], version)
        assert found == label
        assert {row.name for row in updates.all} == names
        assert updates.changes == []


async def test_a_watch_is_told_what_any_client_changes(
    control: FluvioConnection, broker: InProcessBroker
) -> None:
    topics, partitions = Watcher(control, "Topic"), Watcher(control, "Partition")
    assert len((await topics.next()).all) == len((await partitions.next()).all) == 1
    await broker.engine.topics.create("orders", 1, {})
    created = await topics.next()
    assert [(kind, row.name) for kind, row in created.changes] == [(UPDATE, "orders")]
    assert [(kind, row.name) for kind, row in (await partitions.next()).changes] == [
        (UPDATE, "orders-0")
    ]
    await broker.engine.topics.create_partitions("orders", 3)
    grown = await topics.next()
    assert grown.changes[0][1].spec.replicas.partitions == 3
    assert grown.epoch > created.epoch
    assert {row.name for _, row in (await partitions.next()).changes} == {"orders-1", "orders-2"}
    await broker.engine.topics.delete("orders")
    assert [(kind, row.name) for kind, row in (await topics.next()).changes] == [(DELETE, "orders")]
    gone = await partitions.next()
    assert {(kind, row.name) for kind, row in gone.changes} == {
        (DELETE, f"orders-{number}") for number in range(3)
    }


async def test_a_watch_of_what_this_cluster_has_not_is_told_of_nothing(
    control: FluvioConnection,
) -> None:
    number = control.ask_about(WATCH, V, "SmartModule", WatchRequest())
    label, payload = await control.payload(number, V)
    assert (label, bytes(payload)) == ("SmartModule", bytes(16))


async def test_objects_say_where_the_data_port_is_and_who_leads(
    control: FluvioConnection, broker: InProcessBroker
) -> None:
    await broker.engine.topics.create(
        "orders", 1, {"retention.ms": "7200000", "retention.bytes": "5000"}
    )
    (spu,) = (await listed(control, "SPU")).values()
    assert spu.public_endpoint.port == broker.endpoints["FLUVIO_SPU"].port
    assert spu.public_endpoint.ingress[0].hostname == "127.0.0.1"
    (partition,) = (await listed(control, "Partition")).values()
    assert (partition.leader, partition.replicas, partition.resolution) == (spu.id, [spu.id], 1)
    (topic,) = (await listed(control, "Topic")).values()
    assert topic.spec.cleanup_policy == Segment(7200)
    assert topic.spec.storage.max_partition_size == 5000
    assert topic.status.replica_map == {0: [spu.id]}


async def test_a_list_is_filtered_by_parts_of_names_and_by_whose_objects_they_are(
    control: FluvioConnection, broker: InProcessBroker
) -> None:
    for name in ("orders", "returns", "reorders"):
        await broker.engine.topics.create(name, 1, {})
    assert set(await listed(control, "Topic")) == {"orders", "returns", "reorders"}
    assert set(await listed(control, "Topic", filters=("order",))) == {"orders", "reorders"}
    assert set(await listed(control, "Topic", filters=("ret", "nothing"))) == {"returns"}
    assert set(await listed(control, "Topic", system=True)) == {"consumer-offset"}
    number = control.ask_about(LIST, V, "TableFormat", ListRequest())
    assert await control.payload(number, V) == ("TableFormat", memoryview(bytes(4)))


async def test_a_topic_is_created_with_what_its_spec_asks_for(
    control: FluvioConnection, broker: InProcessBroker
) -> None:
    spec = TopicSpec(Computed(3), Segment(3600), Storage(10_000_000, 1_000_000_000), 3)
    assert await change(control, CREATE, CreateTopic("orders", spec=spec)) == Status("orders")
    topic = broker.engine.topics.get("orders")
    assert topic.partitions == 3
    assert topic.descriptor.configs == {
        "retention.ms": "3600000",
        "segment.bytes": "10000000",
        "retention.bytes": "1000000000",
        "compression.type": "lz4",
    }
    assert set(await listed(control, "Topic")) == {"orders"}


async def test_a_dry_run_creates_nothing_and_is_no_change_for_the_audit_log(
    control: FluvioConnection, broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[dict[str, Any]] = []
    monkeypatch.setattr(broker.connections._audit, "_write_line", heard.append)
    assert (await change(control, CREATE, CreateTopic("t", True))).error.code == 0
    assert broker.engine.topics.find("t") is None
    assert heard == []
    assert (await change(control, CREATE, CreateTopic("t"))).error.code == 0
    assert [(line["kind"], line["resources"]) for line in heard] == [("change", ["t"])]


async def test_a_topic_gets_more_partitions_and_is_deleted(
    control: FluvioConnection, broker: InProcessBroker
) -> None:
    await change(control, CREATE, CreateTopic("t"))
    assert await change(control, UPDATE_API, UpdateTopic("t", AddPartitions(2))) == Status("t")
    assert broker.engine.topics.get("t").partitions == 3
    assert await change(control, DELETE_API, DeleteTopic("t")) == Status("t")
    assert broker.engine.topics.find("t") is None


NOT_COMPUTED = "the cluster places partitions itself"


@pytest.mark.parametrize(
    ("api", "label", "payload", "code", "text"),
    [
        (CREATE, "Topic", CreateTopic("there"), FluvioCode.TOPIC_ALREADY_EXISTS, "exists"),
        (CREATE, "Topic", CreateTopic("no name"), FluvioCode.TOPIC_INVALID_NAME, "letters"),
        (
            CREATE,
            "Topic",
            CreateTopic("t", spec=TopicSpec(Computed(0))),
            FluvioCode.TOPIC_INVALID_CONFIGURATION,
            "partitions",
        ),
        (
            CREATE,
            "Topic",
            CreateTopic("t", spec=TopicSpec(Assigned([]))),
            FluvioCode.TOPIC_INVALID_CONFIGURATION,
            NOT_COMPUTED,
        ),
        (
            CREATE,
            "Topic",
            CreateTopic("t", spec=TopicSpec(Mirrored())),
            FluvioCode.TOPIC_INVALID_CONFIGURATION,
            NOT_COMPUTED,
        ),
        (
            CREATE,
            "Topic",
            CreateTopic("t", spec=TopicSpec(deduplication=Deduplication(5))),
            FluvioCode.TOPIC_INVALID_CONFIGURATION,
            "deduplication",
        ),
        (
            CREATE,
            "Topic",
            CreateTopic("t", spec=TopicSpec(compression_type=9)),
            FluvioCode.TOPIC_INVALID_CONFIGURATION,
            "compression type 9",
        ),
        (CREATE, "Topic", CreateTopic("consumer-offset"), FluvioCode.OTHER, "belongs to"),
        (
            CREATE,
            "Topic",
            CreateTopic("t", spec=TopicSpec(system=True)),
            FluvioCode.TOPIC_INVALID_NAME,
            "own",
        ),
        (DELETE_API, "Topic", DeleteTopic("nowhere"), FluvioCode.TOPIC_NOT_FOUND, "no topic"),
        (DELETE_API, "Topic", DeleteTopic("consumer-offset"), FluvioCode.OTHER, "belongs to"),
        (
            UPDATE_API,
            "Topic",
            UpdateTopic("there", AddPartitions(0)),
            FluvioCode.TOPIC_INVALID_CONFIGURATION,
            "partitions",
        ),
        (UPDATE_API, "Topic", UpdateTopic("there", AddMirror("x")), FluvioCode.OTHER, "mirrors"),
        (CREATE, "SmartModule", CreateTopic("m"), FluvioCode.OTHER, "SmartModule objects"),
        (DELETE_API, "SpuGroup", DeleteTopic("m"), FluvioCode.OTHER, "SpuGroup objects"),
    ],
)
async def test_what_cannot_be_done_is_refused_in_words(
    control: FluvioConnection,
    broker: InProcessBroker,
    api: int,
    label: str,
    payload: FluvioTable,
    code: FluvioCode,
    text: str,
) -> None:
    await broker.engine.topics.create("there", 1, {})
    status = await change(control, api, payload, label)
    assert status.error.code == code
    assert status.error_message is not None
    assert text in status.error_message
    if code is FluvioCode.OTHER:
        assert status.error == FluvioError.other(status.error_message)

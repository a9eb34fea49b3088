"""What a client may not do is refused on both ports, and what it may not see is not shown."""

import pytest

from kafscale.model.security.access import CLUSTER_NAME
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.fluvio.errors import FluvioCode
from kafscale.wire.fluvio.messages.change_objects import CreateTopic, DeleteTopic, Status
from kafscale.wire.fluvio.messages.fetch_offsets import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    TopicOffsetsRequest,
)
from kafscale.wire.fluvio.messages.stream_fetch import StreamFetchRequest
from tests.support.authorizers import Denies
from tests.support.fluvio_records import write_batch
from tests.support.fluvio_wire import FluvioConnection
from tests.unit.gateways.fluvio.conftest import WITH_FLUVIO
from tests.unit.gateways.fluvio.test_control import CREATE, DELETE_API, V, Watcher, listed
from tests.unit.gateways.fluvio.test_data import StreamOf, produce, produce_request, values

pytestmark = pytest.mark.real_time


async def test_a_topic_that_is_denied_is_neither_shown_nor_touched() -> None:
    denies = Denies(lambda kind, name: name in {"secret", CLUSTER_NAME})
    async with InProcessBroker(config=WITH_FLUVIO, authorizer=denies) as broker:
        await broker.engine.topics.create("secret", 1, {})
        await broker.engine.topics.create("open", 1, {})
        async with (
            await FluvioConnection.open(broker.endpoints["FLUVIO_SC"]) as control,
            await FluvioConnection.open(broker.endpoints["FLUVIO_SPU"]) as data,
        ):
            assert set(await listed(control, "Topic")) == {"open"}
            shown = await Watcher(control, "Partition").next()
            assert {row.name for row in shown.all} == {"consumer-offset-0", "open-0"}
            for api, payload in (
                (CREATE, CreateTopic("secret")),
                (DELETE_API, DeleteTopic("secret")),
            ):
                number = control.ask_about(api, V, "Topic", payload)
                status = await control.next(number, Status, V)
                assert status.error.code == FluvioCode.PERMISSION_DENIED
            batch = write_batch(values("x"))
            (row,) = await produce(data, produce_request(batch, topic="secret"))
            assert row.error.code == FluvioCode.PERMISSION_DENIED
            (row,) = await produce(data, produce_request(batch, topic="open"))
            assert row.base_offset == 0
            refused = await StreamOf(data, StreamFetchRequest("secret")).answer()
            assert refused.error.code == FluvioCode.PERMISSION_DENIED
            asked = FetchOffsetsRequest([TopicOffsetsRequest("secret", [0])])
            offsets = await data.ask(1002, 24, asked, FetchOffsetsResponse)
            assert offsets.topics[0].partitions[0].error.code == FluvioCode.PERMISSION_DENIED
        assert broker.engine.topics.find("secret") is not None

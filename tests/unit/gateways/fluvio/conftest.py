"""A broker in this process with a Fluvio door on free ports."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from kafscale.gateways.fluvio.listener_names import CONTROL_LISTENER, DATA_LISTENER
from kafscale.settings.sections import FluvioSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.support.fluvio_wire import FluvioConnection

WITH_FLUVIO = replace(FOR_TESTS, fluvio=FluvioSection(sc_port=0, spu_port=0))


@pytest.fixture
async def broker() -> AsyncIterator[InProcessBroker]:
    async with InProcessBroker(config=WITH_FLUVIO) as started:
        yield started


@pytest.fixture
async def control(broker: InProcessBroker) -> AsyncIterator[FluvioConnection]:
    async with await FluvioConnection.open(broker.endpoints[CONTROL_LISTENER]) as connection:
        yield connection


@pytest.fixture
async def data(broker: InProcessBroker) -> AsyncIterator[FluvioConnection]:
    async with await FluvioConnection.open(broker.endpoints[DATA_LISTENER]) as connection:
        yield connection

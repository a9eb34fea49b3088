"""A whole broker in this process, on a free port, over whatever store and clock a test brings.

Here: start, stop, start again on the same objects. Next door: a broker's life (broker/lifecycle.py)
and its parts (broker/wiring.py), stores that fail on purpose (faulty_store.py).
Never here: a client.
"""

import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from kafscale.broker.lifecycle import Lifecycle
from kafscale.broker.wiring import Broker, build
from kafscale.engine.engine import Engine
from kafscale.gateways.connections import Connections
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.endpoints import Endpoint
from kafscale.model.security.access import Authorizer
from kafscale.objects.memory import MemoryObjectStore
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.settings.sections import (
    BrokerSection,
    ConsumerSection,
    FluvioSection,
    PulsarSection,
)
from kafscale.system import SystemClock, SystemDice

_HOST: Final = "127.0.0.1"
_FLUSH_DEADLINE_S: Final = 5.0
# Objects in memory: flushed at once, as on local files. Groups do not wait for more members.
FOR_TESTS: Final = Config(
    broker=BrokerSection(port=0),
    consumer=ConsumerSection(initial_rebalance_delay_ms=0),
    pulsar=PulsarSection(enabled=False),
    use_memory_s3=True,
)


def fluvio_if_asked(config: Config) -> FluvioSection:
    """The Fluvio door as the settings have it, if they name a port: default ports are few."""
    section = config.fluvio
    return replace(section, enabled=section.enabled and section.sc_port is not None)


def _on_free_port(config: Config) -> Config:
    """The same settings, listening where nothing else can be; listeners that are given stay."""
    place = replace(config.broker, host=_HOST, port=0, advertised_host=None, advertised_port=None)
    return replace(config, broker=place, fluvio=fluvio_if_asked(config))


class InProcessBroker:
    """Use with `async with`; what is not given is made: objects in memory, a metadata file."""

    def __init__(
        self,
        *,
        config: Config = FOR_TESTS,
        store: ObjectStore | None = None,
        metadata: MetadataStore | None = None,
        clock: Clock | None = None,
        dice: Dice | None = None,
        has_peers: bool | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.config = config
        self.store: ObjectStore = store or MemoryObjectStore()
        self.clock: Clock = clock or SystemClock()
        self._dice = dice or SystemDice()
        self._given_metadata = metadata
        self._has_peers = has_peers
        self._authorizer = authorizer
        self._undo = contextlib.AsyncExitStack()
        self._folder = (
            TemporaryDirectory(prefix="kafscale-test-", ignore_cleanup_errors=True)
            if metadata is None
            else None
        )
        self._life: Lifecycle | None = None
        self.port = 0
        self.endpoints: dict[str, Endpoint] = {}  # by listener name

    @property
    def parts(self) -> Broker:
        """Everything the broker is made of."""
        assert self._life is not None, "not started"
        return self._life.broker

    @property
    def engine(self) -> Engine:
        """What the broker can do."""
        return self.parts.engine

    @property
    def connections(self) -> Connections:
        """The open connections of its clients."""
        return self.parts.doors.connections

    def metrics(self) -> bytes:
        """What the page for operators would show."""
        return self.parts.metrics.registry.render()

    async def start(self) -> Self:
        """Open everything; clients may come when this returns."""
        async with contextlib.AsyncExitStack() as undo:
            metadata = self._given_metadata
            if metadata is None:
                assert self._folder is not None
                metadata = EmbeddedMetadataStore(
                    Path(self._folder.name) / "metadata.db", "OFF", self.clock
                )
                undo.push_async_callback(metadata.aclose)
            broker = await build(
                _on_free_port(self.config),
                self.store,
                metadata,
                self.clock,
                self._dice,
                has_peers=self._has_peers,
                authorizer=self._authorizer,
            )
            life = Lifecycle(broker, self.config.broker.rack, _FLUSH_DEADLINE_S)
            undo.push_async_callback(life.aclose)
            endpoints = await life.start()
            self.endpoints = endpoints
            self.port = next(iter(endpoints.values())).port
            self._life = life
            self._undo = undo.pop_all()
        return self

    async def stop(self) -> None:
        """Leave and end as a broker does on SIGTERM."""
        if self._life is not None:
            await self._life.leave()
        await self._undo.aclose()
        self._life = None

    async def restart(self) -> Self:
        """Leave and come back to the same objects and metadata."""
        await self.stop()
        return await self.start()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if self._folder is not None:
            self._folder.cleanup()

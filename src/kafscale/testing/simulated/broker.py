"""A broker as a simulated process: it starts, crashes, pauses and comes back.

Here: a broker's life (broker/lifecycle.py) on simulated stores and a simulated network.
Next door: the world it lives in (loop.py, network.py, store.py, metadata.py), the same in real
time (testing/in_process.py).
"""

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import Final

import msgspec

from kafscale.broker.lifecycle import Lifecycle
from kafscale.broker.wiring import Broker, build
from kafscale.model.errors import KafscaleError
from kafscale.settings.config import Config
from kafscale.settings.sections import BrokerSection
from kafscale.testing.clock import SeededDice
from kafscale.testing.in_process import fluvio_if_asked
from kafscale.testing.simulated.clock import SimulatedClock
from kafscale.testing.simulated.loop import SimulatedLoop, SimulatedProcess
from kafscale.testing.simulated.metadata import SimulatedEtcd, SimulatedMetadataStore
from kafscale.testing.simulated.network import SimulatedNetwork
from kafscale.testing.simulated.store import SimulatedBucket, SimulatedObjectStore

PORT: Final = 9092
_RESTART_S: Final = 1.0
_LOOK_S: Final = 0.5


@dataclass(slots=True)
class SimulatedWorld:
    """All that brokers share."""

    seed: int
    loop: SimulatedLoop
    network: SimulatedNetwork
    bucket: SimulatedBucket
    etcd: SimulatedEtcd


class SimulatedBroker:
    """One broker of a world; after a crash it may be started again under the same name."""

    def __init__(
        self, world: SimulatedWorld, number: int, config: Config, skew_ms: int = 0
    ) -> None:
        """Be known as broker-`number`; its clock is off by `skew_ms`."""
        self.world = world
        self.number = number
        self.host = f"broker-{number}"
        self.skew_ms = skew_ms
        section = msgspec.structs.replace(config.broker, id=number, host=self.host, port=PORT)
        assert isinstance(section, BrokerSection)
        self._config: Config = msgspec.structs.replace(
            config, broker=section, fluvio=fluvio_if_asked(config)
        )
        self._starts = 0
        self.process: SimulatedProcess | None = None
        self.parts: Broker | None = None  # None: not up
        self.clock: SimulatedClock | None = None
        self.store: SimulatedObjectStore | None = None
        self.metadata: SimulatedMetadataStore | None = None
        self._leaving: asyncio.Event | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether its process exists."""
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        """Begin a new process; it starts again by itself when starting fails."""
        assert not self.is_up
        self._starts += 1
        process = self.process = self.world.loop.process(f"{self.host}.{self._starts}")
        clock = self.clock = SimulatedClock(process, self.skew_ms)
        self.store = SimulatedObjectStore(self.world.bucket, self.host)
        self.metadata = SimulatedMetadataStore(self.world.etcd, clock)
        dice = SeededDice(random.Random(f"{self.world.seed}/{process.name}").getrandbits(64))
        self._leaving = asyncio.Event()
        serving = self._serve(clock, dice, self.store, self.metadata, self._leaving)
        self._life = process.start(serving)
        self.world.loop.note(f"{process.name} starts")

    async def _serve(
        self,
        clock: SimulatedClock,
        dice: SeededDice,
        store: SimulatedObjectStore,
        metadata: SimulatedMetadataStore,
        leaving: asyncio.Event,
    ) -> None:
        while not leaving.is_set():
            try:
                await self._serve_once(clock, dice, store, metadata, leaving)
            except KafscaleError as problem:
                # Its supervisor starts it again.
                self.world.loop.note(f"{self.host} could not start: {type(problem).__name__}")
                await asyncio.sleep(_RESTART_S)

    async def _serve_once(
        self,
        clock: SimulatedClock,
        dice: SeededDice,
        store: SimulatedObjectStore,
        metadata: SimulatedMetadataStore,
        leaving: asyncio.Event,
    ) -> None:
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(metadata.aclose)
            broker = await build(self._config, store, metadata, clock, dice)
            life = Lifecycle(broker, self._config.broker.rack)
            undo.push_async_callback(life.aclose)
            await life.start()
            self.parts = broker
            self.world.loop.note(f"{self.host} is up")
            await life.wait(leaving)
            self.parts = None
            await life.leave()

    def turn_clock(self, by_ms: int) -> None:
        """Let its wall clock jump, now and for its successors."""
        self.skew_ms += by_ms
        if self.clock is not None:
            self.clock.skew_ms = self.skew_ms

    def crash(self) -> None:
        """End at once: first nothing it holds reaches anything any more, then it is gone."""
        if self.process is None or not self.process.is_alive:
            return
        assert self.store is not None
        assert self.metadata is not None
        self.world.loop.note(f"{self.process.name} crashes")
        self.store.is_dead = self.metadata.is_dead = True
        self.process.crash()
        self.parts = None

    async def leave(self) -> None:
        """Leave as a broker leaves on SIGTERM, then be gone."""
        if self._leaving is None or self._life is None or not self.is_up:
            return
        assert self.process is not None
        self.world.loop.note(f"{self.process.name} leaves")
        self._leaving.set()
        process, life = self.process, self._life
        while process.is_alive and not life.done():
            await asyncio.wait([life], timeout=_LOOK_S)  # it may crash while it leaves
        if process.is_alive:
            process.crash()

"""One life of a broker: what happens in which order, from its start to its end.

Here: the order, once, for the broker process (main.py), for a broker inside a test
(testing/in_process.py) and for a simulated one (testing/simulated/broker.py).
Next door: the parts (wiring.py). Stores are opened and closed by the caller, around this.

Start: engine, doors, cluster. Clients are let in when everything behind the doors is ready. Other
brokers are told of this one when clients can reach it.

End: cluster, doors, engine, connections.
1. Leave the cluster: other brokers take over logs and groups while this one still answers.
2. Close the doors: no new connections, no new requests on those that are open.
3. Stop the engine: it commits what waits. Its producers are still connected, so they are told. In
   the other order, every producer with a batch in flight would see a lost connection instead of an
   acknowledgement, and would send the batch again.
4. End the connections: the last answers go out first.
"""

import asyncio
from typing import Final

from kafscale.broker.wiring import Broker
from kafscale.engine.cluster.membership import Node
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import MetadataUnavailable
from kafscale.tasks import Tasks

FLUSH_DEADLINE_S: Final = 20.0


class Lifecycle:
    """Starts a broker, watches it, ends it. `aclose` is needed also after a failed start."""

    def __init__(
        self, broker: Broker, rack: str | None, flush_deadline_s: float = FLUSH_DEADLINE_S
    ) -> None:
        self.broker = broker
        self._rack = rack
        self._flush_deadline_s = flush_deadline_s

    async def start(self) -> dict[str, Endpoint]:
        """Let clients in; gives what they are told to connect to, by listener name."""
        engine = self.broker.engine
        await engine.start()
        await self.broker.before_clients()
        endpoints = await self.broker.doors.open()
        await engine.cluster.join(Node(engine.identity.broker_id, endpoints, self._rack))
        return endpoints

    async def wait(self, leaving: asyncio.Event) -> None:
        """Wait until asked to leave; MetadataUnavailable if the broker must not go on."""
        tasks = Tasks()
        tasks.spawn(leaving.wait(), "signal", awaited=True)
        failed = tasks.spawn(self.broker.engine.cluster.failure(), "failure", awaited=True)
        try:
            await tasks.wait_for_one()
            reason = failed.result() if failed.done() else ""
        finally:
            await tasks.aclose()
        if reason:
            raise MetadataUnavailable(reason)

    async def leave(self) -> None:
        """Hand over to other brokers and take no more requests: steps 1 and 2. Then `aclose`."""
        await self.broker.engine.cluster.leave()
        self.broker.doors.close()
        self.broker.doors.stop_reading()

    async def aclose(self) -> None:
        """Commit what waits and end the connections: steps 3 and 4."""
        try:
            await self.broker.engine.aclose(self._flush_deadline_s)
        finally:
            await self.broker.doors.aclose()

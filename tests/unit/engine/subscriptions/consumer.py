"""A consumer of a subscription that keeps what it is given, and a plain way to cut batches."""

from collections.abc import Sequence
from typing import Any

from kafscale.engine.engine import Engine
from kafscale.engine.subscriptions.attached import Attached
from kafscale.engine.subscriptions.ports import EARLIEST, Framing, Receiver, SubscriptionName, Wish
from kafscale.model.errors import KafscaleError
from kafscale.records.batch import BatchHeader
from kafscale.subscriptions.events import MessageDelivery, MessageRun, Mode


class Singles(Framing):
    """Each message is an entry."""

    def frame(
        self, batch: memoryview, header: BatchHeader, *, by_key: bool
    ) -> Sequence[MessageRun]:
        hashes = [offset % 7 for offset in range(header.base_offset, header.next_offset)]
        return [
            MessageRun(header.base_offset, header.next_offset, True, hashes if by_key else (), 0)
        ]


class Wholes(Framing):
    """Each batch is an entry."""

    def frame(
        self, batch: memoryview, header: BatchHeader, *, by_key: bool
    ) -> Sequence[MessageRun]:
        return [MessageRun(header.base_offset, header.next_offset, False, (0,), 0, batch)]


class Taker(Receiver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.deliveries: list[MessageDelivery] = []
        self.activities: list[bool] = []
        self.ends: list[KafscaleError | None] = []
        self.handle: Attached | None = None

    def deliver(self, deliveries: Sequence[MessageDelivery], epoch: int) -> None:
        self.deliveries += deliveries
        for delivery in deliveries:
            self.offsets += range(delivery.first, delivery.next)

    def activity(self, is_active: bool) -> None:
        self.activities.append(is_active)

    def disconnected(self, problem: KafscaleError | None) -> None:
        self.ends.append(problem)

    @property
    def attached(self) -> Attached:
        assert self.handle is not None
        return self.handle


def named(engine: Engine, group_id: str = "s", partition: int = 0) -> SubscriptionName:
    """A subscription of topic "t"."""
    return SubscriptionName(group_id, engine.topics.get("t"), partition)


async def attach(
    engine: Engine,
    permits: int = 1000,
    *,
    group_id: str = "s",
    partition: int = 0,
    framing: Framing | None = None,
    **wishes: Any,
) -> Taker:
    """A consumer that has permits."""
    taker = Taker()
    wish = Wish(**{"name": "c", "mode": Mode.EXCLUSIVE, "start": EARLIEST} | wishes)
    name = named(engine, group_id, partition)
    taker.handle = await engine.subscriptions.attach(name, wish, framing or Singles(), taker)
    if permits:
        taker.attached.permit(permits)
    return taker

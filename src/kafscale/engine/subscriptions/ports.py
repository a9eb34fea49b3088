"""What a door and the engine are to each other where a subscription is concerned.

Here: what a door implements (`Framing`, `Receiver`), and what it names a subscription by.
Next door: the verbs (subscriptions.py, attached.py).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from kafscale.engine.partitions.visibility import READ_COMMITTED, IsolationLevel
from kafscale.engine.topics.topic import Topic
from kafscale.model.errors import KafscaleError
from kafscale.records.batch import BatchHeader
from kafscale.subscriptions.events import (
    Census,
    MessageDelivery,
    MessageRun,
    Mode,
    OffsetSpan,
    SubscriptionRules,
)

EARLIEST = -2  # a start: the log's first offset
LATEST = -1  # a start: the log's end


class SubscriptionName(NamedTuple):
    """One subscription of one partition. Its acknowledged offset is committed for `group_id`."""

    group_id: str
    topic: Topic
    partition: int


class Framing(Protocol):
    """Says how a door cuts batches into runs. It must always cut the same batch the same way."""

    def frame(
        self, batch: memoryview, header: BatchHeader, *, by_key: bool
    ) -> Sequence[MessageRun]:
        """The runs of one batch, by offset, with what `Receiver.deliver` needs as their source.

        `by_key`: each run has the hashes of its keys, and no entry has two keys.
        An offset of the batch that no run covers counts as acknowledged. Batches of control
        records are not asked for. Must not wait.
        """


class Receiver(Protocol):
    """A consumer's end of the connection. Nothing here may wait or raise."""

    def deliver(self, deliveries: Sequence[MessageDelivery], epoch: int) -> None:
        """Send these messages."""

    def activity(self, is_active: bool) -> None:
        """The consumer is the active one of a FAILOVER subscription from now on, or is not."""

    def disconnected(self, problem: KafscaleError | None) -> None:
        """The consumer is not attached any more: calls on it have no effect.

        None: after a seek, it may attach again at once. Otherwise why, such as NotTheOwner.
        """


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer asks for when it attaches."""

    name: str
    mode: Mode
    is_durable: bool = True
    start: int = LATEST  # for a subscription that is new: an offset, EARLIEST or LATEST
    start_ms: int = -1  # instead: the first message of this time or later
    may_create: bool = True
    priority: int = 0
    key_ranges: tuple[OffsetSpan, ...] = ()
    epoch: int = 0
    properties: dict[str, str] = {}  # of a subscription that is new
    isolation: IsolationLevel = READ_COMMITTED
    rules: SubscriptionRules | None = None  # None: the usual ones


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription as tools show it."""

    group_id: str
    is_durable: bool
    created_at: str
    properties: dict[str, str]
    acknowledged_to: int
    backlog: int  # messages that are not acknowledged
    census: Census | None  # None: no consumer has attached here since it was loaded

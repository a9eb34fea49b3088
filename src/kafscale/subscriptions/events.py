"""The events a subscription handles and the effects it gives back.

Here: events, effects and the nouns they carry, as values. A message is named by its offset. A run
is a range of offsets that the log has beside each other and that one consumer can be given at once.
Next door: the state machine (machine.py). Never here: behaviour.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafscale.model.errors import KafscaleError

ConsumerId = int  # the shell gives them out; none is used twice in one subscription
OffsetSpan = tuple[int, int]  # offsets: the first one, and the one after the last
ReturnedSpan = tuple[int, int, int]  # the same, and how often its messages were handed back


class Mode(Enum):
    """How the consumers of a subscription share its messages."""

    EXCLUSIVE = "exclusive"  # one consumer
    FAILOVER = "failover"  # one consumer is active, the others stand by
    SHARED = "shared"  # each entry goes to one of them
    KEY_SHARED = "key_shared"  # all messages of a key go to the same one

    @property
    def is_ordered(self) -> bool:
        """Whether one consumer gets all messages, in the order of the log."""
        return self in (Mode.EXCLUSIVE, Mode.FAILOVER)


class MessageRun(NamedTuple):
    """Messages as the log has them. The door says how a batch is cut into runs.

    `is_split`: each message is an entry of its own, so that the run can be cut anywhere. Otherwise
    the run is one entry: one consumer gets all of it, and acknowledges it by its first offset.
    """

    first: int
    next: int
    is_split: bool = False
    hashes: Sequence[int] = ()  # of keys, 0 to 65535: one per entry; asked for in KEY_SHARED only
    deliver_at_ms: int = 0  # not before, in modes that are not ordered
    source: object = None  # what the door needs to send it; the machine never opens it


class MessageDelivery(NamedTuple):
    """Messages for one consumer: a run, or a part of it where the rest is acknowledged already."""

    first: int
    next: int
    is_split: bool
    redeliveries: int  # how often the messages were handed back before
    source: object  # of the run


class Ack(NamedTuple):
    """Acknowledges the entry that begins at `first`, or some of its messages.

    `unacknowledged`: words of 64 bits, the lowest bit first. Message first + i is still not
    acknowledged if bit i is set. Without words the whole entry is acknowledged.
    """

    first: int
    unacknowledged: Sequence[int] = ()


# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """A consumer joins. `key_ranges`: the hashes that it wants for itself (KEY_SHARED, sticky)."""

    consumer: ConsumerId
    name: str
    mode: Mode
    priority: int = 0  # 0 comes before 1
    key_ranges: Sequence[OffsetSpan] = ()
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Detach:
    """A consumer has gone; what it has not acknowledged comes again."""

    consumer: ConsumerId


@dataclass(frozen=True, slots=True)
class Permit:
    """A consumer takes so many more messages."""

    consumer: ConsumerId
    messages: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A consumer takes so many messages and no others, whatever it took before.

    `is_exact`: it never gets more, even if an entry must be cut for that.
    """

    consumer: ConsumerId
    messages: int
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """A consumer's connection is full, or has room again: permits stay as they are."""

    consumer: ConsumerId
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A consumer has done its work for single entries or messages."""

    consumer: ConsumerId
    acks: Sequence[Ack]


@dataclass(frozen=True, slots=True)
class AcknowledgeUpTo:
    """A consumer has done its work for this entry, or a part of it, and for all before it."""

    consumer: ConsumerId
    ack: Ack


@dataclass(frozen=True, slots=True)
class AcknowledgeSpans:
    """The same for offsets, after the shell has looked up where entries end."""

    spans: Sequence[OffsetSpan]


class Fate(Enum):
    """What becomes of a message that a consumer has."""

    DONE = "done"  # it never comes again
    RELEASED = "released"  # it comes again, unless it has come too often
    UNTOUCHED = "untouched"  # it comes again, as if it had not been given to the consumer
    RENEWED = "renewed"  # the consumer keeps it, and its lock begins anew


@dataclass(frozen=True, slots=True)
class Settle:
    """A consumer decides about messages that it has, by their offsets: all of it or nothing.

    Refused if one of the messages is not with this consumer. `fates` are in the order of offsets.
    """

    consumer: ConsumerId
    fates: Sequence[tuple[OffsetSpan, Fate]]


@dataclass(frozen=True, slots=True)
class Redeliver:
    """A consumer hands entries back, named by any of their offsets; None: all that it has.

    In ordered modes everything that is not acknowledged comes again, whatever is named.
    """

    consumer: ConsumerId
    offsets: Sequence[int] | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What the log has from `at` to `next`. Offsets in between without a run have no message."""

    at: int
    next: int
    runs: Sequence[MessageRun]


@dataclass(frozen=True, slots=True)
class Seek:
    """Everything before `offset` counts as acknowledged and nothing else; all consumers go."""

    offset: int


@dataclass(frozen=True, slots=True)
class LogStart:
    """The log begins at `offset` now: what lay before it is gone."""

    offset: int


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is delivered here any more; all consumers are told why."""

    problem: KafscaleError


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """Other bounds hold from now on."""

    rules: "SubscriptionRules"


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time has passed."""


SubscriptionEvent = (
    Attach
    | Detach
    | Permit
    | Ask
    | Pause
    | Acknowledge
    | AcknowledgeUpTo
    | AcknowledgeSpans
    | Settle
    | Redeliver
    | Found
    | Seek
    | LogStart
    | End
    | ChangeRules
    | TimePassed
)

# -- effects ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send these messages to a consumer, with its newest epoch."""

    consumer: ConsumerId
    epoch: int
    deliveries: Sequence[MessageDelivery]


@dataclass(frozen=True, slots=True)
class Activity:
    """Tell a consumer of a FAILOVER subscription whether it is the active one."""

    consumer: ConsumerId
    is_active: bool


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The consumer is not attached any more; None: it may attach again at once."""

    consumer: ConsumerId
    problem: KafscaleError | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The event had no effect."""

    problem: KafscaleError


@dataclass(frozen=True, slots=True)
class LookUp:
    """The shell must find out where these entries end, and say AcknowledgeSpans."""

    acks: Sequence[Ack]
    is_cumulative: bool = False


@dataclass(frozen=True, slots=True)
class Save:
    """What is acknowledged has changed; `at_once`: before the call is answered."""

    at_once: bool = False


@dataclass(frozen=True, slots=True)
class WakeUpAt:
    """The subscription wants a TimePassed at this time."""

    at_ms: int


SubscriptionEffect = Deliver | Activity | Disconnect | Refuse | LookUp | Save | WakeUpAt


@dataclass(frozen=True, slots=True)
class SubscriptionRules:
    """The bounds of one subscription."""

    most_unacked: int = 50_000  # messages at one consumer, in modes that are not ordered
    most_unacked_in_all: int = 200_000
    most_permits: int = 1_000_000  # what a consumer can have at a time
    most_consumers: int = 1_000
    most_spans: int = 50_000  # of acknowledged messages: then nothing new is delivered
    most_saved_spans: int = 10_000  # the lowest ones; others come again after a crash
    most_waiting: int = 20_000  # runs read and not delivered: delayed, handed back, key is busy
    most_at_once: int = 20  # messages for one consumer before it is the next one's turn
    failover_delay_ms: int = 1_000  # for the acknowledgements of the consumer that was active
    lock_ms: int = 0  # so long a consumer has what it was given; 0: as long as it is attached
    most_deliveries: int = 0  # what then comes back is done; 0: it is delivered without end


DEFAULT_RULES = SubscriptionRules()


@dataclass(frozen=True, slots=True)
class Census:
    """A subscription as tools show it."""

    mode: Mode
    acknowledged_to: int  # everything before this offset is acknowledged
    acknowledged_beyond: int  # messages after it that are acknowledged, too
    spans: int  # that they lie in
    read_to: int
    in_flight: int  # messages
    waiting: int  # runs that were read and wait to be delivered (again)
    delayed: int  # of these, before their time
    consumers: Sequence["ConsumerCensus"] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class ConsumerCensus:
    """A consumer as tools show it."""

    consumer: ConsumerId
    name: str
    priority: int
    permits: int
    unacked: int
    is_active: bool
    is_blocked: bool  # by its unacknowledged messages

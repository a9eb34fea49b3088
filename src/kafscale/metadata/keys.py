"""What the keys of the metadata store are called, and the JSON behind them.

Here: names and values. Free text is percent-encoded, so that a group called "a/offsets/b" stays
one path segment and cannot reach into another key space.
Next door: the store itself (store.py). Never here: segment lists, heartbeats.

    /kafscale/cluster
    /kafscale/recovery                                     a command is rebuilding the store
    /kafscale/marks/{what}                                 the next number of each kind
    /kafscale/topics/{topic}/config
    /kafscale/changes/{topic}                              a change of a topic has begun
    /kafscale/moves/{topic}/{folder}                       how far a log is with a moving topic
    /kafscale/removals/{folder}                            objects of deleted topics to remove
    /kafscale/brokers/{broker_id}                          a registration; goes with its lease
    /kafscale/controller                                   the broker that writes the members
    /kafscale/members                                      the brokers that own logs: placement.py
    /kafscale/broker-names/{name}                          the id of a broker without a set one
    /kafscale/writers/{lease}/{number}                     witnesses of commits: etcd/commits.py
    /kafscale/acls/{type}/{pattern}/{name}/{principal}/{host}/{operation}/{permission}
    /kafscale/scram/{mechanism}/{user}                     what is kept of a password
    /kafscale/decoys                                       a secret, for users that do not exist
    /kafscale/tokens/{token}                               a delegation token
    /kafscale/quotas/{type}={name}/{type}={name}           of clients; no name: the default
    /kafscale/group-configs/{group}                        what a group has set of its own
    /kafscale/consumers/{group}/coordinator                the broker that writes the others
    /kafscale/consumers/{group}/metadata
    /kafscale/consumers/{group}/offsets/{topic}/{partition}
    /kafscale/consumers/{group}/pending/{id}               offsets that a transaction may commit
    /kafscale/transactions/{id}/row                        a transactional id: transactions/rows.py
    /kafscale/transactions/{id}/places/{token}             partitions registered with it
    /kafscale/transactions/{id}/marked/{token}             those of them that have their marker
    /kafscale/transactions/{id}/sessions/{token}           who holds its records in memory
    /kafscale/transactions/{id}/kept/{token}               those that have written them
    /kafscale/endings/{id}                                 decided, and not all have their marker
    /kafscale/producers/{producer_id}                      the transactional id of a producer
    /kafscale/subscriptions/{topic}/{group}/{partition}    beside the committed offset
"""

import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, TypeVar
from urllib.parse import quote, unquote

import msgspec

from kafscale.model.endpoints import PLAINTEXT, Endpoint
from kafscale.model.errors import CorruptObject
from kafscale.model.group_types import CLASSIC
from kafscale.model.topics import LaneRange, Move

ROOT: Final = "/kafscale"
CLUSTER: Final = f"{ROOT}/cluster"
MARKS: Final = f"{ROOT}/marks/"
PRODUCER_IDS: Final = f"{ROOT}/marks/producer-ids"
BROKER_IDS: Final = f"{ROOT}/marks/broker-ids"
BROKER_NAMES: Final = f"{ROOT}/broker-names/"
RECOVERY: Final = f"{ROOT}/recovery"
TOPICS: Final = f"{ROOT}/topics/"
BROKERS: Final = f"{ROOT}/brokers/"
CONTROLLER: Final = f"{ROOT}/controller"
MEMBERS: Final = f"{ROOT}/members"
CONSUMERS: Final = f"{ROOT}/consumers/"
GROUP_CONFIGS: Final = f"{ROOT}/group-configs/"
SUBSCRIPTIONS: Final = f"{ROOT}/subscriptions/"
REMOVALS: Final = f"{ROOT}/removals/"
CHANGES: Final = f"{ROOT}/changes/"
MOVES: Final = f"{ROOT}/moves/"
EPOCHS: Final = f"{ROOT}/marks/epochs"
WRITERS: Final = f"{ROOT}/writers/"
ACLS: Final = f"{ROOT}/acls/"
SCRAM: Final = f"{ROOT}/scram/"
DECOYS: Final = f"{ROOT}/decoys"
TOKENS: Final = f"{ROOT}/tokens/"
QUOTAS: Final = f"{ROOT}/quotas/"
TENANTS: Final = f"{ROOT}/tenants/"

TRANSACTIONS: Final = f"{ROOT}/transactions/"
ENDINGS: Final = f"{ROOT}/endings/"
PRODUCERS: Final = f"{ROOT}/producers/"

PACKED_FROM_BYTES: Final = 256 << 10  # of a group's record

_NAMES_KEPT: Final = 4096
_OFFSET_PARTS: Final = 4  # group, "offsets", topic, partition
_SUBSCRIPTION_PARTS: Final = 3  # topic, group, partition
_CLAIM_SLASHES: Final = 4  # of /kafscale/consumers/{group}/coordinator
_OFFSET_SLASHES: Final = 6

_T = TypeVar("_T", bound=msgspec.Struct)


@lru_cache(_NAMES_KEPT)
def segment(text: str) -> str:
    """Make one path segment of any text. Names of groups and topics come again and again."""
    return quote(text, safe="", errors="surrogateescape")


def text_of(part: str) -> str:
    """Decode what `segment` encoded."""
    return unquote(part, errors="surrogateescape")


def topic(name: str) -> str:
    """The prefix of every key of a topic."""
    return f"{TOPICS}{segment(name)}/"


def topic_config(name: str) -> str:
    """The key of a topic's settings."""
    return f"{topic(name)}config"


def topic_named_by(key: str) -> str | None:
    """The topic whose settings this key holds, None for any other key."""
    parts = key.removeprefix(TOPICS).split("/")
    return text_of(parts[0]) if key.startswith(TOPICS) and parts[1:] == ["config"] else None


def change(name: str) -> str:
    """The key of the note that a topic's newest descriptor may not be in this store yet."""
    return f"{CHANGES}{segment(name)}"


def moves(name: str) -> str:
    """The prefix of all reports about a moving topic."""
    return f"{MOVES}{segment(name)}/"


def move_report(name: str, folder: str) -> str:
    """The key of one log's report about a moving topic."""
    return f"{moves(name)}{segment(folder)}"


def removal(folder: str) -> str:
    """The key of the note that the objects of a folder must be removed."""
    return f"{REMOVALS}{segment(folder)}"


def broker(broker_id: int) -> str:
    """The key of a broker's registration."""
    return f"{BROKERS}{broker_id}"


def broker_name(name: str) -> str:
    """The key of the id that was allocated to a broker of this name."""
    return f"{BROKER_NAMES}{segment(name)}"


def quota(entity: Iterable[tuple[str, str | None]]) -> str:
    """What follows the prefix in the key of an entity's quotas; a name of None is the default."""
    return "/".join(kind if name is None else f"{kind}={segment(name)}" for kind, name in entity)


def quota_entity(name: str) -> tuple[tuple[str, str | None], ...]:
    """Decode what `quota` encoded."""
    parts = (part.partition("=") for part in name.split("/"))
    return tuple((kind, text_of(text) if mark else None) for kind, mark, text in parts)


def tenant(name: str) -> str:
    """The key of a tenant."""
    return f"{TENANTS}{segment(name)}"


def namespace(tenant_name: str, name: str) -> str:
    """The key of a tenant's namespace."""
    return f"{tenant(tenant_name)}/{segment(name)}"


def namespace_named_by(key: str) -> tuple[str, str]:
    """Tenant and namespace of such a key; the namespace of a tenant's own key is empty."""
    first, _, second = key.removeprefix(TENANTS).partition("/")
    return text_of(first), text_of(second)


def group(group_id: str) -> str:
    """The prefix of every key of a consumer group."""
    return f"{CONSUMERS}{segment(group_id)}/"


def group_coordinator(group_id: str) -> str:
    """The key of a group's coordinator: every other write to the group compares it."""
    return f"{group(group_id)}coordinator"


def group_metadata(group_id: str) -> str:
    """The key of a group's members and generation."""
    return f"{group(group_id)}metadata"


def group_offsets(group_id: str) -> str:
    """The prefix of all committed offsets of a group."""
    return f"{group(group_id)}offsets/"


def group_topic_offsets(group_id: str, name: str) -> str:
    """The prefix of a group's committed offsets for one topic."""
    return f"{group_offsets(group_id)}{segment(name)}/"


def group_offset(group_id: str, name: str, partition: int) -> str:
    """The key of a group's committed offset for one partition."""
    return f"{group_topic_offsets(group_id, name)}{partition}"


def group_named_by(key: str) -> str | None:
    """The group that this key is about, None for any other key."""
    if not key.startswith(CONSUMERS):
        return None
    return text_of(key.removeprefix(CONSUMERS).split("/")[0])


def is_claim(key: str) -> bool:
    """Whether this key says who coordinates a group."""
    is_last = key.endswith("/coordinator") and key.startswith(CONSUMERS)
    return is_last and key.count("/") == _CLAIM_SLASHES


def is_offset(key: str) -> bool:
    """Whether this key holds a committed offset."""
    return key.startswith(CONSUMERS) and key.count("/") == _OFFSET_SLASHES


def place_committed_by(key: str) -> tuple[str, int] | None:
    """The topic and partition whose committed offset this key holds, None for any other key."""
    parts = key.removeprefix(CONSUMERS).split("/")
    if not key.startswith(CONSUMERS) or len(parts) != _OFFSET_PARTS or parts[1] != "offsets":
        return None
    return (text_of(parts[2]), int(parts[3])) if parts[3].isdecimal() else None


def subscriptions(name: str) -> str:
    """The prefix of all subscriptions of a topic."""
    return f"{SUBSCRIPTIONS}{segment(name)}/"


def subscription(name: str, group_id: str, partition: int) -> str:
    """The key of a subscription: what the group's committed offset does not say of it."""
    return f"{subscriptions(name)}{segment(group_id)}/{partition}"


def subscription_named_by(key: str) -> tuple[str, str, int] | None:
    """Topic, group and partition of a subscription's key, None for any other key."""
    parts = key.removeprefix(SUBSCRIPTIONS).split("/")
    if not key.startswith(SUBSCRIPTIONS) or len(parts) != _SUBSCRIPTION_PARTS:
        return None
    return (text_of(parts[0]), text_of(parts[1]), int(parts[2])) if parts[2].isdecimal() else None


def transaction(transactional_id: str) -> str:
    """The prefix of every key of a transactional id."""
    return f"{TRANSACTIONS}{segment(transactional_id)}/"


def transaction_row(transactional_id: str) -> str:
    """The key that every write about a transactional id compares."""
    return f"{transaction(transactional_id)}row"


def transaction_places(transactional_id: str, token: str = "") -> str:
    """The key of some registered partitions, or the prefix of all."""
    return f"{transaction(transactional_id)}places/{token}"


def transaction_marked(transactional_id: str, token: str = "") -> str:
    """The key of some partitions that have their marker, or the prefix of all."""
    return f"{transaction(transactional_id)}marked/{token}"


def transaction_sessions(transactional_id: str, token: str, *, are_kept: bool) -> str:
    """The key of sessions that hold a transaction's records, or have written them."""
    return f"{transaction(transactional_id)}{'kept' if are_kept else 'sessions'}/{token}"


def transaction_named_by(key: str) -> str | None:
    """The transactional id that this key is the row of, None for any other key."""
    parts = key.removeprefix(TRANSACTIONS).split("/")
    is_row = key.startswith(TRANSACTIONS) and parts[1:] == ["row"]
    return text_of(parts[0]) if is_row else None


def ending(transactional_id: str) -> str:
    """The key that is there while a decided transaction lacks a marker somewhere."""
    return f"{ENDINGS}{segment(transactional_id)}"


def producer(producer_id: int) -> str:
    """The key of a transactional producer."""
    return f"{PRODUCERS}{producer_id}"


def pending_offsets(group_id: str, transactional_id: str | None = None) -> str:
    """The key of what a transaction may commit for a group, or the prefix of all."""
    last = "" if transactional_id is None else segment(transactional_id)
    return f"{group(group_id)}pending/{last}"


class AclRow(msgspec.Struct, frozen=True, kw_only=True):
    """One access control list entry, by the names that Kafka gives its parts."""

    resource_type: str
    pattern_type: str
    resource_name: str
    principal: str
    host: str
    operation: str
    permission: str

    def name(self) -> str:
        """What its key is called: all of its parts, so that no entry is there twice."""
        return "/".join(segment(part) for part in msgspec.structs.astuple(self))


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's own id, written by its first broker."""

    cluster_id: str
    created_at: str


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """A command has begun to rebuild this store from a bucket."""

    namespace: str
    started_at: str


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The first number of a kind that was not given out yet."""

    next: int


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's settings in readable form, and which incarnation of the topic it is."""

    name: str
    partitions: int
    replication_factor: int = 1  # durability is the bucket's matter
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    created_at: str
    config: dict[str, str] = {}
    topic_id: str
    incarnation: int = 1
    folder: str
    version: int = 0  # of the descriptor this was read from
    logs: int = 0  # on which the partitions lie; 0: one each
    shared: list[LaneRange] = []  # where they lie if they share logs with others
    moving: Move | None = None
    moves: int = 0


class ChangeNote(msgspec.Struct, frozen=True, kw_only=True):
    """A broker is about to write a new descriptor of this topic."""

    name: str


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted topic's objects; looked for until none has appeared for a grace period."""

    folder: str
    logs: int
    deleted_ms: int
    name: str = ""
    topic_id: str = ""
    shared: list[LaneRange] = []  # lanes that end in logs that stay
    after_ms: int = 0  # until then a client may still read there


class MoveReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far a log is with a topic that moves: the log it moves into, or the one it leaves."""

    move_id: str
    state: Literal["near", "done", "sealed"]
    ends: dict[int, int] = {}  # of sealed lanes: the offset after the seal


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has come in a partition, and of which incarnation of the topic."""

    offset: int
    metadata: str = ""
    committed_at: str
    leader_epoch: int = -1
    topic_id: str = ""


class PlacesRow(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions that a transaction writes to, or that have its marker."""

    topics: list[tuple[str, str, list[int]]]  # topic id, name, partitions
    turn: int


class ProducerRow(msgspec.Struct, frozen=True, kw_only=True):
    """The transactional id that a producer id was given to.

    Or, after a recovery, the transactions of a producer that markers in the bucket call committed:
    the epoch of their records, and their turn.
    """

    transactional_id: str = ""
    committed: list[tuple[int, int]] = []


class PendingOffset(msgspec.Struct, array_like=True, frozen=True):
    """An offset that is committed if its transaction is."""

    topic: str
    partition: int
    value: CommittedOffset


class PendingOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction commits for one group."""

    turn: int
    offsets: list[PendingOffset]


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription: with a committed offset in one commit, written by the partition's owner."""

    acknowledged_to: int  # the committed offset; another one there is a reset by other tools
    spans: bytes = b""  # acknowledged messages beyond it: subscriptions/snapshot.py
    returned: bytes = b""  # messages that were handed back, and how often: the same
    topic_id: str
    created_at: str
    properties: dict[str, str] = {}
    broker_id: int
    broker_epoch: int  # of the broker that wrote this


class CoordinatorRow(msgspec.Struct, frozen=True, kw_only=True):
    """The broker that coordinates a group; `epoch` counts the claims."""

    broker_id: int
    broker_epoch: int  # rises with every start, so that no two claims are alike
    epoch: int
    claimed_at: str


class AssignedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions of one topic, for people to look at."""

    topic: str
    partitions: list[int]


class ConsumerMemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """What only members of consumer groups have. Partitions are listed by topic id."""

    rack: str | None = None
    names: list[str] = []
    regex: str = ""
    matched: list[str] = []
    assignor: str = ""
    epoch: int
    previous_epoch: int
    state: str
    assigned: dict[str, list[int]] = {}
    revoking: dict[str, list[int]] = {}
    target: dict[str, list[int]] = {}


class GroupMemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group member in readable form, and its own bytes, which are the ones brokers use."""

    client_id: str
    client_host: str
    heartbeat_at: str  # when this was written: heartbeats themselves are not
    assignment: list[AssignedTopic] = []
    subscriptions: list[str] = []
    instance_id: str | None = None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[tuple[str, bytes]] = []
    assignment_bytes: bytes = b""
    consumer: ConsumerMemberRow | None = None  # of members of consumer groups


class GroupHead(msgspec.Struct, frozen=True, kw_only=True):
    """The little of a group that a list of groups shows."""

    state: str
    protocol_type: str
    group_type: str = CLASSIC


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group as its last complete rebalance left it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    leader: str
    generation_id: int  # of a consumer group: its epoch
    group_type: str = CLASSIC
    target_epoch: int = 0  # of a consumer group: the epoch that its target was made for
    members: dict[str, GroupMemberRow] = {}
    state_at: str = ""  # when this was written; for an empty group: since when it has been empty


class PackedGroup(GroupRow, frozen=True, kw_only=True):
    """A group with many members: `packed` is their JSON, deflated."""

    packed: bytes = b""


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a broker, and how far it has followed the fleet."""

    broker_id: int
    host: str  # of the first endpoint: earlier versions read this one alone
    port: int
    endpoints: dict[str, Endpoint] = {}  # by listener name; none: an earlier version wrote this
    rack: str | None = None
    started_at: str
    version: str
    incarnation: int = 0  # another one with every registration
    leaving: bool = False
    generation: int = 0  # of members: the broker has let go of what it lost up to this one
    transaction_version: int = 0  # the highest that the broker knows

    def by_listener(self) -> dict[str, Endpoint]:
        """Where clients reach the broker; an earlier version has one listener, PLAINTEXT."""
        return self.endpoints or {PLAINTEXT: Endpoint(self.host, self.port)}


class ControllerRow(msgspec.Struct, frozen=True, kw_only=True):
    """The broker that writes `members`."""

    broker_id: int
    incarnation: int


class MemberRow(msgspec.Struct, frozen=True, order=True):
    """A broker that logs and groups are given to."""

    broker_id: int
    incarnation: int


class MemberList(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers that own logs and groups. `previous` shows a reader that it missed one."""

    generation: int
    previous: int = 0
    brokers: tuple[MemberRow, ...] = ()
    transaction_version: int = 0  # that all brokers know; it never falls


class BrokerName(msgspec.Struct, frozen=True, kw_only=True):
    """The id that a broker without a configured one was given."""

    broker_id: int


def encode(value: msgspec.Struct) -> bytes:
    """Encode a value as JSON."""
    return msgspec.json.encode(value)


def encode_group(row: GroupRow) -> bytes:
    """Encode a group. A large one is packed: etcd takes 1.5 MiB, and members repeat each other."""
    raw = encode(row)
    if len(raw) <= PACKED_FROM_BYTES:
        return raw
    packed = zlib.compress(msgspec.json.encode(row.members))
    facts = msgspec.structs.asdict(row) | {"members": {}, "packed": packed}
    return encode(PackedGroup(**facts))


def decode_group(raw: bytes) -> GroupRow:
    """Decode a group, packed or not."""
    row = decode(PackedGroup, raw)
    if not row.packed:
        return row
    try:
        members = msgspec.json.decode(zlib.decompress(row.packed), type=dict[str, GroupMemberRow])
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise CorruptObject(
            f"the members of group {row.group_id!r} are not readable: {bad}"
        ) from bad
    return msgspec.structs.replace(row, members=members, packed=b"")


def decode(kind: type[_T], raw: bytes) -> _T:
    """Decode a value; fields that a newer version added are passed over."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise CorruptObject(f"metadata is not a {kind.__name__}: {bad}") from bad

"""Rebuilding the metadata store from a bucket.

Here: comparing the evidence in the bucket with the store, and writing what the store lacks. Nothing
is written to the bucket. A second recovery changes nothing; one that was interrupted can be run
again.
Next door: the evidence (log/catalog/bucket_scan.py), the command (cli/serving/recover.py).

The store keeps what it has, with three exceptions: ids rise, topics become what the newest
descriptor in the bucket says, and the cluster id is that of the checkpoint.
"""

from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import structlog

from kafscale.log.catalog.bucket_scan import (
    SPARE_BROKER_IDS,
    SPARE_EPOCHS,
    SPARE_PRODUCER_IDS,
    Evidence,
)
from kafscale.log.formats.checkpoint import CheckpointRow
from kafscale.metadata import keys
from kafscale.metadata.store import (
    Compare,
    Entry,
    MetadataStore,
    Put,
    Remove,
    pages,
)
from kafscale.metadata.topic_rows import record_of
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import TopicDefaults, iso_time

logger = structlog.get_logger()

_T = TypeVar("_T", bound=msgspec.Struct)


@dataclass(slots=True)
class Plan:
    """What will be written, and numbers for the report."""

    writes: list[Put | Remove] = field(default_factory=list)
    guards: list[Compare] = field(default_factory=list)
    topics_before: int = 0
    is_resumed: bool = False
    topics: int = 0  # written, new or changed
    topics_removed: int = 0
    removals: int = 0
    acls: int = 0
    credentials: int = 0  # of users who log in by SCRAM
    tokens: int = 0
    quotas: int = 0
    groups: int = 0
    offsets: int = 0
    offsets_kept: int = 0  # the store had them already
    offsets_without_topic: int = 0
    offsets_below_start: int = 0
    offsets_beyond_end: int = 0
    transactions: int = 0  # committed in some partitions, and to be committed in the others
    marks: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


async def plan(metadata: MetadataStore, evidence: Evidence, defaults: TopicDefaults) -> Plan:
    """Compare the evidence with what the store says."""
    stored = {entry.key: entry for entry in await metadata.find(f"{keys.ROOT}/")}
    return _Planner(stored, evidence, defaults).plan()


async def carry_out(metadata: MetadataStore, wanted: Plan, namespace: str, clock: Clock) -> None:
    """Write the plan. Raises MetadataConflict if another process writes to the store meanwhile.

    A note in the store marks the recovery while it runs: no broker starts on half a store.
    """
    note = keys.Recovery(namespace=namespace, started_at=iso_time(clock.now_ms()))
    await metadata.commit([Put(keys.RECOVERY, keys.encode(note))])
    for page in pages(wanted.writes):
        await metadata.commit(wanted.writes[page], wanted.guards[page])
    await metadata.commit([Remove(keys.RECOVERY)])


class _Planner:
    def __init__(
        self, stored: dict[str, Entry], evidence: Evidence, defaults: TopicDefaults
    ) -> None:
        self._stored = stored
        self._evidence = evidence
        self._defaults = defaults
        self._plan = Plan(
            topics_before=sum(keys.topic_named_by(key) is not None for key in stored),
            is_resumed=keys.RECOVERY in stored,
            problems=list(evidence.problems),
        )
        self._rows: dict[str, msgspec.Raw] = {}
        if evidence.checkpoint is not None:
            self._rows = dict(evidence.checkpoint.rows)

    def plan(self) -> Plan:
        self._plan_numbers()
        self._plan_topics()
        self._plan_removals()
        for row in self._rows.items():
            self._plan_row(row)
        self._plan_transactions()
        return self._plan

    def _put(self, key: str, value: bytes) -> bool:
        """Plan to give a key this value; False if it has it already."""
        entry = self._stored.get(key)
        if entry is not None and entry.value == value:
            return False
        self._plan.writes.append(Put(key, value))
        self._plan.guards.append(Compare(key, entry.version if entry else 0))
        return True

    # -- numbers -----------------------------------------------------------------------------

    def _plan_numbers(self) -> None:
        evidence = self._evidence
        if keys.CLUSTER in self._rows:
            self._put(keys.CLUSTER, bytes(self._rows[keys.CLUSTER]))
        self._raise(keys.PRODUCER_IDS, evidence.producer_id + 1, SPARE_PRODUCER_IDS)
        self._raise(keys.EPOCHS, evidence.epoch + 1, SPARE_EPOCHS)
        if keys.BROKER_IDS in self._rows:
            self._raise(keys.BROKER_IDS, 0, SPARE_BROKER_IDS)

    def _raise(self, key: str, seen: int, spare: int) -> None:
        """Raise a mark above all ids that may have been given out; it never falls."""
        saved = self._mark_in_checkpoint(key)
        wanted = max(seen, saved.next if saved else 0) + spare
        entry = self._stored.get(key)
        now = keys.decode(keys.Mark, entry.value).next if entry else 0
        self._plan.marks[key.rpartition("/")[2]] = max(now, wanted)
        if now < wanted:
            self._put(key, keys.encode(keys.Mark(next=wanted)))

    def _mark_in_checkpoint(self, key: str) -> keys.Mark | None:
        raw = self._rows.get(key)
        return None if raw is None else keys.decode(keys.Mark, bytes(raw))

    # -- topics ------------------------------------------------------------------------------

    def _plan_topics(self) -> None:
        for version, descriptor in self._evidence.topics:
            key = keys.topic_config(descriptor.name)
            row = record_of(descriptor, version, self._defaults)
            entry = self._stored.get(key)
            known = keys.decode(keys.TopicRow, entry.value) if entry else None
            if known is not None and _says_the_same(known, row):
                continue
            self._plan.topics += self._put(key, keys.encode(row))

    def _plan_removals(self) -> None:
        living = self._evidence.topic_ids
        for key, entry in self._stored.items():
            name = keys.topic_named_by(key)
            if name in self._evidence.ended:
                self._plan.topics_removed += 1
                self._plan.writes.append(Remove(key))
                self._plan.guards.append(Compare(key, entry.version))
            elif name is not None and name not in living:
                self._plan.problems.append(f"topic {name}: not in the bucket; left as it is")
        for removal in self._evidence.removals:
            if keys.removal(removal.folder) not in self._stored:
                self._plan.removals += self._put(keys.removal(removal.folder), keys.encode(removal))

    def _plan_transactions(self) -> None:
        """Rule T16: a commit marker is believed. Owners write those that are missing."""
        for producer_id, committed in self._evidence.half_committed().items():
            key = keys.producer(producer_id)
            if key not in self._stored:
                row = keys.ProducerRow(committed=committed)
                self._plan.transactions += self._put(key, keys.encode(row))

    # -- groups and access -------------------------------------------------------------------

    def _plan_row(self, row: CheckpointRow) -> None:
        key, value = row
        if key.startswith(keys.CONSUMERS):
            if keys.is_offset(key):
                self._plan_offset(key, bytes(value))
            elif key not in self._stored:
                self._plan.groups += self._put(key, bytes(value))
        elif key in self._stored:
            return
        elif key.startswith(
            (keys.BROKER_NAMES, keys.SUBSCRIPTIONS, keys.GROUP_CONFIGS, keys.DECOYS)
        ):
            self._put(key, bytes(value))
        elif key.startswith(keys.ACLS):
            self._plan.acls += self._put(key, bytes(value))
        elif key.startswith(keys.SCRAM):
            self._plan.credentials += self._put(key, bytes(value))
        elif key.startswith(keys.TOKENS):
            self._plan.tokens += self._put(key, bytes(value))
        elif key.startswith(keys.QUOTAS):
            self._plan.quotas += self._put(key, bytes(value))

    def _plan_offset(self, key: str, value: bytes) -> None:
        """Plan a committed offset, unchanged, even if the log does not have it.

        A consumer that reads at such an offset gets Kafka's error that it is out of range, and
        resets itself by its own setting. Recovery does not choose another offset for the group.
        """
        if key in self._stored:
            self._plan.offsets_kept += 1
            return
        place = keys.place_committed_by(key)
        try:
            committed = keys.decode(keys.CommittedOffset, value)
        except CorruptObject as bad:
            self._plan.problems.append(f"{key}: {bad}")
            return
        topic_id = self._evidence.topic_ids.get(place[0]) if place else None
        if place is None or topic_id is None or committed.topic_id not in ("", topic_id):
            self._plan.offsets_without_topic += 1
            return
        start, end = self._evidence.bounds.get(place, (0, 0))
        self._plan.offsets_below_start += committed.offset < start
        self._plan.offsets_beyond_end += committed.offset > end
        self._plan.offsets += self._put(key, value)


def _says_the_same(known: keys.TopicRow, row: keys.TopicRow) -> bool:
    """Whether the stored row is as new; defaults that have changed since do not count."""
    return (known.topic_id, known.version) == (row.topic_id, row.version)

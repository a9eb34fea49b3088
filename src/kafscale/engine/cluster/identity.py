"""The identity of a broker: cluster id, broker id, and an epoch that rises with every start.

Here: how a broker claims its identity through the metadata store. For a single broker the epoch is
the leader epoch of its logs; in a fleet it is the broker's first incarnation.
Next door: which logs a broker owns (membership.py).
"""

from dataclasses import dataclass
from typing import Final

from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import MetadataConflict
from kafscale.model.names import TopicId, topic_id_text
from kafscale.model.topics import iso_time

FIRST_ALLOCATED_ID: Final = 1001  # below it are ids that operators set


@dataclass(frozen=True, slots=True)
class Identity:
    """How other processes and clients know this broker."""

    cluster_id: str
    broker_id: int
    epoch: int

    @property
    def author(self) -> str:
        """The name that this broker writes into objects."""
        return f"broker-{self.broker_id}"


async def claim_identity(
    metadata: MetadataStore,
    clock: Clock,
    dice: Dice,
    broker_id: int | None,
    name: str | None = None,
) -> Identity:
    """Claim this broker's identity: the same ids as before, a higher epoch.

    Without a broker id, the broker has the id that was allocated to `name`. An empty name gets a
    new id each time; None is the name of a single broker, whose id is 0.
    """
    if broker_id is None:
        broker_id = 0 if name is None else await _read_or_allocate_id(metadata, name)
    while True:
        known = await metadata.get(keys.CLUSTER)
        mark = await metadata.get(keys.EPOCHS)
        if known is None:
            cluster = keys.ClusterRow(
                cluster_id=topic_id_text(TopicId(dice.token(16))),
                created_at=iso_time(clock.now_ms()),
            )
        else:
            cluster = keys.decode(keys.ClusterRow, known.value)
        epoch = keys.decode(keys.Mark, mark.value).next if mark else 0
        try:
            await metadata.commit(
                [
                    Put(keys.CLUSTER, keys.encode(cluster)),
                    Put(keys.EPOCHS, keys.encode(keys.Mark(next=epoch + 1))),
                ],
                [
                    Compare(keys.CLUSTER, known.version if known else 0),
                    Compare(keys.EPOCHS, mark.version if mark else 0),
                ],
            )
        except MetadataConflict:
            continue
        # The id may be of a settings type, which cannot be written as JSON.
        return Identity(cluster.cluster_id, int(broker_id), epoch)


async def next_epoch(metadata: MetadataStore) -> int:
    """Take a number that no broker had before, for one more incarnation of this one."""
    while True:
        mark = await metadata.get(keys.EPOCHS)
        epoch = keys.decode(keys.Mark, mark.value).next if mark else 0
        try:
            await metadata.commit(
                [Put(keys.EPOCHS, keys.encode(keys.Mark(next=epoch + 1)))],
                [Compare(keys.EPOCHS, mark.version if mark else 0)],
            )
        except MetadataConflict:
            continue
        return epoch


async def _read_or_allocate_id(metadata: MetadataStore, name: str) -> int:
    """Read the id that belongs to a name, or allocate one."""
    while True:
        known = await metadata.get(keys.broker_name(name)) if name else None
        if known is not None:
            return keys.decode(keys.BrokerName, known.value).broker_id
        mark = await metadata.get(keys.BROKER_IDS)
        number = keys.decode(keys.Mark, mark.value).next if mark else FIRST_ALLOCATED_ID
        writes = [Put(keys.BROKER_IDS, keys.encode(keys.Mark(next=number + 1)))]
        guards = [Compare(keys.BROKER_IDS, mark.version if mark else 0)]
        if name:
            given = keys.encode(keys.BrokerName(broker_id=number))
            writes.append(Put(keys.broker_name(name), given))
            guards.append(Compare(keys.broker_name(name), 0))
        try:
            await metadata.commit(writes, guards)
        except MetadataConflict:
            continue
        return number

"""Who this broker is, and which leader epoch it writes under.

Here: the identity claimed at start through the metadata store: cluster id, broker id, and an
epoch that rises with every start. One broker alone owns every log; a fleet's assignment comes
through the same door.
"""

from dataclasses import dataclass

from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import MetadataConflict
from kafscale.model.names import TopicId, topic_id_text
from kafscale.model.topics import iso_time


@dataclass(frozen=True, slots=True)
class Identity:
    """What other processes and clients know this broker by."""

    cluster_id: str
    broker_id: int
    epoch: int


async def claim(
    metadata: MetadataStore, clock: Clock, dice: Dice, broker_id: int | None
) -> Identity:
    """Become this broker: same ids as before, one epoch higher."""
    while True:
        known = await metadata.get(keys.CLUSTER)
        mark = await metadata.get(keys.EPOCHS)
        if known is None:
            cluster = keys.Cluster(
                cluster_id=topic_id_text(TopicId(dice.token(16))),
                created_at=iso_time(clock.now_ms()),
            )
        else:
            cluster = keys.decode(keys.Cluster, known.value)
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
        return Identity(cluster.cluster_id, broker_id or 0, epoch)

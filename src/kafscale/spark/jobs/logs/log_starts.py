"""Raising the log starts of lanes, by a commit of the log's manifest.

Next door: which starts (jobs/retain.py), the rule (log/formats/manifest.py).
"""

from kafscale.log.formats import manifest
from kafscale.log.formats.manifest import Manifest
from kafscale.log.protocol import commits
from kafscale.log.protocol.commits import LostRace
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket


def raise_starts(bucket: Bucket, seen: Manifest, folder: str, starts: dict[int, int]) -> bool:
    """Commit new log starts; whole segments below them go. False: the log was changed."""

    def is_in(newer: Manifest) -> bool:
        return all(
            lane in newer.lanes and newer.lanes[lane].start >= start
            for lane, start in starts.items()
        )

    async def commit(store: ObjectStore) -> bool:
        try:
            await commits.commit(
                store,
                folder,
                seen,
                lambda old: manifest.raise_starts(old, starts),
                is_in=is_in,
                author="pipeline",
                clock=bucket.clock,
                dice=bucket.dice,
            )
        except LostRace:
            return False
        return True

    return bucket.run(commit)

"""The controller: one broker at a time that writes which brokers count.

Here: the election, and a new generation of members whenever registrations say so. Members are
written only together with a comparison of the controller's key, so that one which does not know
yet that it was deposed is stopped by the store. Generations are numbers of the same rising mark as
incarnations and the epochs of lone brokers: leader epochs never go back.
Next door: what members mean (placement.py), registering (fleet.py).
"""

import asyncio
from typing import Final

import structlog

from kafscale.engine.cluster.fleet_state import FleetState, readable
from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put
from kafscale.model.errors import MetadataConflict, MetadataUnavailable

logger = structlog.get_logger()

_PAUSE_S: Final = 0.1
_NO_MEMBERS: Final = keys.MemberList(generation=0)


class Controller:
    """A candidate, and controller whenever there is no other."""

    def __init__(self, view: FleetState, metadata: MetadataStore) -> None:
        """Go by `view`, decide by `metadata`."""
        self._view = view
        self._metadata = metadata

    async def run(self) -> None:
        """Look whenever something has happened in the fleet."""
        bell = self._view.bell()
        while True:
            await bell.wait()
            bell.clear()
            try:
                await self.act()
            except (MetadataConflict, MetadataUnavailable) as problem:
                # Somebody was faster, or the store is away: what is to be done is decided anew.
                logger.debug("controller_tries_again", reason=str(problem))
                bell.set()
                await asyncio.sleep(_PAUSE_S)

    async def act(self) -> None:
        """Become the controller if there is none; as the controller, write what has changed."""
        guard = await self._elected()
        if guard is not None:
            await self._govern(guard)

    async def _elected(self) -> Compare | None:
        """The guard of the controller's key if it is ours, now or from now on."""
        view = self._view
        ours = keys.ControllerRow(broker_id=view.identity.broker_id, incarnation=view.incarnation)
        if view.controller not in (None, ours) and not self._seems_gone(view.controller):
            return None
        found = await self._metadata.get(keys.CONTROLLER)
        holder = next(readable(keys.ControllerRow, [found] if found else []), None)
        if found is not None and holder == ours:
            return Compare(keys.CONTROLLER, found.version)
        if holder is not None and not await self._is_gone(holder):
            return None
        if view.lease is None or self._others_should():
            return None
        version = await self._metadata.commit(
            [Put(keys.CONTROLLER, keys.encode(ours), view.lease.id)],
            [Compare(keys.CONTROLLER, found.version if found else 0)],
        )
        logger.info("controller_elected", broker_id=ours.broker_id)
        return Compare(keys.CONTROLLER, version)

    def _others_should(self) -> bool:
        """A broker that leaves does not begin what it cannot go on with, if there are others."""
        return self._view.is_leaving and any(not row.leaving for row in self._view.brokers.values())

    def _seems_gone(self, holder: keys.ControllerRow | None) -> bool:
        row = self._view.brokers.get(holder.broker_id) if holder else None
        return holder is None or row is None or row.incarnation != holder.incarnation

    async def _is_gone(self, holder: keys.ControllerRow) -> bool:
        """Whether the holder's registration is gone or taken over by its successor.

        A broker that was restarted need not wait for the lease of its own predecessor.
        """
        found = await self._metadata.get(keys.broker(holder.broker_id))
        row = next(readable(keys.BrokerRow, [found] if found else []), None)
        return row is None or row.incarnation != holder.incarnation

    async def _govern(self, guard: Compare) -> None:
        """Make those members who are registered and stay."""
        rows = readable(keys.BrokerRow, await self._metadata.find(keys.BROKERS))
        staying = [row for row in rows if not row.leaving]
        wanted = sorted(keys.MemberRow(row.broker_id, row.incarnation) for row in staying)
        found = await self._metadata.get(keys.MEMBERS)
        current = next(readable(keys.MemberList, [found] if found else []), _NO_MEMBERS)
        if not wanted or tuple(wanted) == current.brokers:
            return
        mark = await self._metadata.get(keys.EPOCHS)
        following = keys.decode(keys.Mark, mark.value).next if mark else 0
        # Brokers may remember more than a metadata store that was restored.
        generation = max(following, current.generation + 1, self._view.generation + 1)
        members = keys.MemberList(
            generation=generation, previous=current.generation, brokers=tuple(wanted)
        )
        await self._metadata.commit(
            [
                Put(keys.MEMBERS, keys.encode(members)),
                Put(keys.EPOCHS, keys.encode(keys.Mark(next=generation + 1))),
            ],
            [
                guard,
                Compare(keys.MEMBERS, found.version if found else 0),
                Compare(keys.EPOCHS, mark.version if mark else 0),
            ],
        )
        logger.info(
            "members_written", generation=generation, brokers=[row.broker_id for row in wanted]
        )

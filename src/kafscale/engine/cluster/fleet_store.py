"""The fleet's keys in the metadata store: what the machine asks for, read, written and watched.

Here: one coroutine per effect that needs the store; each gives the event that answers it.
Next door: who asks (machine.py), who calls (fleet.py), names and JSON (metadata/keys.py).
Never here: decisions. MetadataConflict and MetadataUnavailable go to the caller.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, TypeVar

import msgspec
import structlog

from kafscale.engine.cluster.events import (
    BrokersChanged,
    BrokersListed,
    BrokersRead,
    ClaimController,
    ControllerClaimed,
    ControllerSeen,
    FleetEvent,
    FleetRead,
    MembersSeen,
    MembersWritten,
    ReadBrokers,
    ReadFleet,
    ReadRegistration,
    RegistrationRead,
    RegistrationWritten,
    StoreEffect,
    WriteMembers,
    WriteRegistration,
)
from kafscale.metadata import keys
from kafscale.metadata.lease import LeaseId
from kafscale.metadata.store import Change, Compare, Entry, Listing, MetadataStore, Put
from kafscale.model.errors import CorruptObject

logger = structlog.get_logger()

_Row = TypeVar("_Row", bound=msgspec.Struct)
_NO_MEMBERS: Final = keys.MemberList(generation=0)


class FleetStore:
    """One broker's reads and writes of the fleet's keys."""

    def __init__(self, metadata: MetadataStore, broker_id: int) -> None:
        self._metadata = metadata
        self._key = keys.broker(broker_id)

    async def answer(self, effect: StoreEffect, lease: LeaseId) -> FleetEvent:
        """Do what an effect asks for; what is written goes when `lease` goes."""
        match effect:
            case ReadRegistration():
                return await self._read_registration()
            case WriteRegistration():
                return await self._write_registration(effect, lease)
            case ReadBrokers(generation):
                return BrokersRead(generation, await self._read_brokers())
            case ReadFleet():
                return await self.read_fleet()
            case ClaimController():
                return await self._claim_controller(effect, lease)
            case WriteMembers():
                return await self.write_members(effect)

    async def _read_registration(self) -> RegistrationRead:
        entry = await self._metadata.get(self._key)
        members = await self._metadata.find(keys.MEMBERS)
        generations = [row.generation for row in _readable(keys.MemberList, members)]
        return RegistrationRead(
            _row_of(keys.BrokerRow, entry), _version(entry), max(generations, default=0)
        )

    async def _write_registration(
        self, effect: WriteRegistration, lease: LeaseId
    ) -> RegistrationWritten:
        version = await self._metadata.commit(
            [Put(self._key, keys.encode(effect.row), lease)], [Compare(self._key, effect.version)]
        )
        return RegistrationWritten(effect.row, version)

    async def _read_brokers(self) -> tuple[keys.BrokerRow, ...]:
        return tuple(_readable(keys.BrokerRow, await self._metadata.find(keys.BROKERS)))

    async def read_fleet(self) -> FleetRead:
        """Read all that a controller decides by."""
        # The controller's key comes first: what it guards is newer than it.
        controller = await self._metadata.get(keys.CONTROLLER)
        brokers = await self._read_brokers()
        members = await self._metadata.get(keys.MEMBERS)
        mark = await self._metadata.get(keys.EPOCHS)
        return FleetRead(
            _row_of(keys.ControllerRow, controller),
            _version(controller),
            brokers,
            _row_of(keys.MemberList, members) or _NO_MEMBERS,
            _version(members),
            keys.decode(keys.Mark, mark.value).next if mark else 0,
            _version(mark),
        )

    async def _claim_controller(self, effect: ClaimController, lease: LeaseId) -> ControllerClaimed:
        await self._metadata.commit(
            [Put(keys.CONTROLLER, keys.encode(effect.row), lease)],
            [Compare(keys.CONTROLLER, effect.version)],
        )
        logger.info("controller_elected", broker_id=effect.row.broker_id)
        return ControllerClaimed()

    async def write_members(self, effect: WriteMembers) -> MembersWritten:
        """Write a member list, unless the controller was deposed meanwhile."""
        members = effect.members
        await self._metadata.commit(
            [
                Put(keys.MEMBERS, keys.encode(members)),
                Put(keys.EPOCHS, keys.encode(keys.Mark(next=members.generation + 1))),
            ],
            [
                Compare(keys.CONTROLLER, effect.controller_version),
                Compare(keys.MEMBERS, effect.members_version),
                Compare(keys.EPOCHS, effect.epochs_version),
            ],
        )
        brokers = [row.broker_id for row in members.brokers]
        logger.info("members_written", generation=members.generation, brokers=brokers)
        return MembersWritten()

    async def watch_brokers(self) -> AsyncIterator[FleetEvent]:
        """Follow the registrations."""
        async with contextlib.aclosing(self._metadata.watch(keys.BROKERS)) as watch:
            async for news in watch:
                rows = tuple(_readable(keys.BrokerRow, _written(news)))
                if isinstance(news, Listing):
                    yield BrokersListed(rows)
                else:
                    names = (key.removeprefix(keys.BROKERS) for key in news.removed)
                    gone = tuple(int(name) for name in names if name.isdecimal())
                    yield BrokersChanged(rows, gone)

    async def watch_controller(self) -> AsyncIterator[FleetEvent]:
        """Follow who the controller is."""
        async with contextlib.aclosing(self._metadata.watch(keys.CONTROLLER)) as watch:
            async for news in watch:
                rows = list(_readable(keys.ControllerRow, _written(news)))
                yield ControllerSeen(rows[-1] if rows else None)

    async def watch_members(self) -> AsyncIterator[FleetEvent]:
        """Follow the member lists."""
        async with contextlib.aclosing(self._metadata.watch(keys.MEMBERS)) as watch:
            async for news in watch:
                for members in _readable(keys.MemberList, _written(news)):
                    yield MembersSeen(members)


def _readable(kind: type[_Row], entries: Iterable[Entry]) -> Iterator[_Row]:
    """Decode entries; one that is no longer readable must not stop a whole fleet."""
    for entry in entries:
        try:
            yield keys.decode(kind, entry.value)
        except CorruptObject as problem:
            logger.error("fleet_unreadable", key=entry.key, error=str(problem))


def _row_of(kind: type[_Row], entry: Entry | None) -> _Row | None:
    return next(_readable(kind, [entry] if entry else []), None)


def _version(entry: Entry | None) -> int:
    return entry.version if entry else 0


def _written(news: Listing | Change) -> list[Entry]:
    return news.entries if isinstance(news, Listing) else news.written

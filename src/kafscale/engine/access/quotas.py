"""Client quotas: kept in the metadata store, known to every broker, measured by each for itself.

Here: the rows, their changes, and the meters of this broker's clients. As in Kafka a quota is per
broker: a client that talks to three brokers may use three times as much. While the metadata store
is away, the quotas last known hold.
Next door: what a quota means (access/quotas.py), how rows are kept (watched_rows.py), who is made
to wait (gateways/kafka/throttling.py, gateways/connections.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from kafscale.access.quota_rates import USUAL_WINDOWS, QuotaWindows
from kafscale.access.quotas import (
    ClientLimits,
    ClientQuotas,
    EntityFilter,
    QuotaEntity,
    QuotaKey,
    QuotaValues,
    check_filters,
    check_quota,
    matches,
)
from kafscale.engine.access.watched_rows import WatchedRows
from kafscale.metadata import keys
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject, InvalidRequest

MOST_ENTITIES: Final = 10_000  # every broker holds all of them in memory
QuotaChanges = Mapping[str, float | None]  # by key; None: removed


class Quotas:
    """The quotas of a cluster, and how much of them clients of this broker use."""

    def __init__(
        self, metadata: MetadataStore, clock: Clock, windows: QuotaWindows = USUAL_WINDOWS
    ) -> None:
        """`clock` measures rates."""
        self._clock = clock
        self._clients = ClientQuotas(windows)
        self._rows: WatchedRows[QuotaValues] = WatchedRows(metadata, keys.QUOTAS, _decode, _encode)
        self._rows.listen(self._changed)
        # Looked at for every request and connection: without quotas that is all they cost.
        self.limits_clients = False
        self.times_requests = False
        self.limits_connections = False
        self.longest_request_delay_s = windows.sample_s

    async def load(self) -> None:
        """Read all quotas."""
        await self._rows.load()

    async def run(self) -> None:
        """Follow what all brokers write, until cancelled."""
        await self._rows.run()

    def _changed(self, name: str, old: QuotaValues | None, new: QuotaValues | None) -> None:
        self._clients.set(keys.quota_entity(name), new)
        known = self._clients.keys
        self.limits_connections = QuotaKey.CONNECTIONS in known
        self.times_requests = QuotaKey.REQUEST_TIME in known
        self.limits_clients = bool(known - {QuotaKey.CONNECTIONS})

    # -- questions and changes ---------------------------------------------------------------

    def find(
        self, filters: Iterable[EntityFilter], *, is_strict: bool
    ) -> Iterator[tuple[QuotaEntity, QuotaValues]]:
        """The entities that are asked for, with their quotas."""
        wanted = tuple(filters)
        check_filters(wanted)
        for entity, values in self._clients.rows.items():
            if matches(entity, wanted, is_strict=is_strict):
                yield entity, values

    async def alter(
        self, entity: QuotaEntity, changes: QuotaChanges, *, only_check: bool = False
    ) -> None:
        """Set and remove quotas of an entity. Raises InvalidRequest, and then changes nothing."""
        for key, value in changes.items():
            check_quota(entity, key, value)
        is_new = entity not in self._clients.rows
        if is_new and len(self._clients.rows) >= MOST_ENTITIES:
            raise InvalidRequest(f"quotas of more than {MOST_ENTITIES} entities are not kept")
        if only_check:
            return

        def change(old: QuotaValues | None) -> QuotaValues | None:
            values = {**(old or {}), **changes}
            return {key: value for key, value in values.items() if value is not None} or None

        await self._rows.change(keys.quota(entity), change)

    # -- measuring ---------------------------------------------------------------------------

    def limits_of(self, user: str, client_id: str, now_s: float) -> ClientLimits:
        """The meters of a client's quotas."""
        return self._clients.limits_of(user, client_id, now_s)

    def charge_connection(self, address: str) -> float:
        """Count a new connection; gives the seconds of its penalty if it is one too many.

        A connection that is refused does not count against those that come later.
        """
        now_s = self._clock.elapsed_s()
        meter = self._clients.connections(address, now_s)
        if meter is None:
            return 0.0
        delay_s = meter.charge(1, now_s)
        if delay_s > 0:
            meter.record(-1, now_s)
        return min(delay_s, self._clients.windows.sample_s)


def _decode(raw: bytes) -> QuotaValues:
    try:
        return msgspec.json.decode(raw, type=dict[str, float])
    except msgspec.MsgspecError as problem:
        raise CorruptObject(f"not a row of quotas: {problem}") from problem


def _encode(values: QuotaValues) -> bytes:
    return msgspec.json.encode(values)

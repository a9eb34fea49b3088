"""Which quota a client has: by user, by client id, by both, by defaults, or by address.

Here: entities and their quotas, what an operator may set, the order in which Kafka looks for the
quota of a client, questions about quotas, and the meters of clients. A client that invents client
ids cannot grow memory: the meters used last are kept.
Next door: rates (quota_rates.py), where quotas are stored (engine/access/quotas.py), who is made
to wait (gateways).
"""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from kafscale.access.decision import same_host
from kafscale.access.quota_rates import (
    USUAL_WINDOWS,
    QuotaMeter,
    QuotaWindows,
    SampledRate,
    TokenBucket,
)
from kafscale.model.errors import InvalidRequest, UnsupportedEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

MOST_METERS: Final = 10_000
LONGEST_NAME: Final = 1000  # characters of a name in an entity
_TOLD_APART: Final = 256  # characters of a client id: longer ones that begin alike share a meter


class QuotaKey(StrEnum):
    """What a quota limits, per second."""

    PRODUCED_BYTES = "producer_byte_rate"
    CONSUMED_BYTES = "consumer_byte_rate"
    REQUEST_TIME = "request_percentage"
    MUTATIONS = "controller_mutation_rate"
    CONNECTIONS = "connection_creation_rate"


_WHOLE: Final = {QuotaKey.PRODUCED_BYTES, QuotaKey.CONSUMED_BYTES, QuotaKey.CONNECTIONS}
_OF_CLIENTS: Final = frozenset(QuotaKey) - {QuotaKey.CONNECTIONS}
_OF_ADDRESSES: Final = frozenset({QuotaKey.CONNECTIONS})
_LARGEST: Final = {QuotaKey.CONNECTIONS: 2**31 - 1}

# Types and names, sorted by type; the name None is the default of its type.
QuotaEntity = tuple[tuple[str, str | None], ...]
QuotaValues = Mapping[str, float]


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Make an entity of the types and names that an operator gave. Raises InvalidRequest."""
    rows = list(parts)
    types = {kind for kind, _ in rows}
    if not rows:
        raise InvalidRequest("a quota is for a user, a client id or an address: none is named")
    for kind, name in rows:
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(
                f"entity type {kind[:LONGEST_NAME]!r}: expected user, client-id or ip"
            )
        if name is not None and not 0 < len(name) <= LONGEST_NAME:
            raise InvalidRequest(f"the name of a {kind} has 1 to {LONGEST_NAME} characters")
        if kind == IP and name is not None:
            _check_address(name)
    if len(types) < len(rows):
        raise InvalidRequest("an entity type is given twice")
    if IP in types and len(types) > 1:
        raise InvalidRequest("a quota for an address has no user and no client id")
    return tuple(sorted((kind, _same_name(kind, name)) for kind, name in rows))


def _same_name(kind: str, name: str | None) -> str | None:
    """A name in its one form: an address of IPv6 can be written in several."""
    return same_host(name) if kind == IP and name is not None else name


def _check_address(name: str) -> None:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise InvalidRequest(f"{name!r} is no address") from None


def check_quota(entity: QuotaEntity, key: str, value: float | None) -> None:
    """Raise InvalidRequest unless this entity may have such a quota. None: it is removed."""
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    if key not in known:
        kinds = " and ".join(kind for kind, _ in entity)
        raise InvalidRequest(f"there is no quota {key[:LONGEST_NAME]!r} by {kinds}")
    if value is None:
        return
    if not math.isfinite(value) or value <= 0:
        raise InvalidRequest(f"{key} must be a number above 0")
    if QuotaKey(key) in _WHOLE and value != int(value):
        raise InvalidRequest(f"{key} must be a whole number")
    if value > _LARGEST.get(QuotaKey(key), 2**63 - 1):
        raise InvalidRequest(f"{key} is too large")


class EntityFilter(NamedTuple):
    """What an entity must have of one type: this name, the default, or either."""

    kind: str
    name: str | None = None  # None: the default, or any if `is_any`
    is_any: bool = False


def check_filters(filters: Iterable[EntityFilter]) -> None:
    """Raise InvalidRequest or UnsupportedEntity for a question that makes no sense."""
    types = [one.kind for one in filters]
    if "" in types:
        raise InvalidRequest("an entity type is empty")
    for kind in types:
        if kind not in ENTITY_TYPES:
            raise UnsupportedEntity(f"entity type {kind[:LONGEST_NAME]!r} is not supported")
    if len(set(types)) < len(types):
        raise InvalidRequest("an entity type is given twice")
    if IP in types and len(types) > 1:
        raise InvalidRequest("a quota for an address has no user and no client id")


def matches(entity: QuotaEntity, filters: Iterable[EntityFilter], *, is_strict: bool) -> bool:
    """Whether an entity is asked for; with `is_strict` it has no further types."""
    parts = dict(entity)
    wanted = list(filters)
    if is_strict and len(wanted) != len(parts):
        return False
    return all(
        one.kind in parts and (one.is_any or parts[one.kind] == _same_name(one.kind, one.name))
        for one in wanted
    )


class ClientLimits(NamedTuple):
    """The meters of one client's quotas; None: it has no such quota."""

    produced_bytes: QuotaMeter | None
    consumed_bytes: QuotaMeter | None
    request_time: QuotaMeter | None
    mutations: QuotaMeter | None


_KEYS_OF_LIMITS: Final = (
    QuotaKey.PRODUCED_BYTES,
    QuotaKey.CONSUMED_BYTES,
    QuotaKey.REQUEST_TIME,
    QuotaKey.MUTATIONS,
)


class ClientQuotas:
    """All quotas, and what clients of this broker have used."""

    def __init__(
        self, windows: QuotaWindows = USUAL_WINDOWS, most_meters: int = MOST_METERS
    ) -> None:
        """`most_meters`: how many clients are told apart, over all quotas."""
        self.windows = windows
        self._most = most_meters
        self._rows: dict[QuotaEntity, QuotaValues] = {}
        self._limits: dict[tuple[str, str], ClientLimits] = {}  # a cache: emptied when it is full
        self._meters: OrderedDict[tuple[str, str, str], QuotaMeter] = OrderedDict()
        self.keys: frozenset[str] = frozenset()  # of quotas that some client may have

    @property
    def rows(self) -> Mapping[QuotaEntity, QuotaValues]:
        """The quotas of every entity that has one."""
        return self._rows

    def set(self, entity: QuotaEntity, values: QuotaValues | None) -> None:
        """Replace all quotas of an entity; None or no values: it has none."""
        if values:
            self._rows[entity] = values
        else:
            self._rows.pop(entity, None)
        self._limits.clear()
        self.keys = frozenset(key for row in self._rows.values() for key in row)

    def limits_of(self, user: str, client_id: str, now_s: float) -> ClientLimits:
        """The meters of a client's quotas. The busiest path: looked up for every request."""
        return self._limits.get((user, client_id)) or self._look_up(user, client_id, now_s)

    def _look_up(self, user: str, client_id: str, now_s: float) -> ClientLimits:
        meters = (self._meter(key, user, client_id, now_s) for key in _KEYS_OF_LIMITS)
        limits = ClientLimits(*meters)
        if len(self._limits) >= self._most:
            self._limits.clear()
        if len(client_id) <= _TOLD_APART:
            self._limits[user, client_id] = limits
        return limits

    def connections(self, address: str, now_s: float) -> QuotaMeter | None:
        """The meter of an address's new connections; None: it has no quota."""
        address = same_host(address)
        for name in (address, None):
            bound = self._rows.get(((IP, name),), {}).get(QuotaKey.CONNECTIONS)
            if bound is not None:
                return self._shared(QuotaKey.CONNECTIONS, bound, address, "", now_s)
        return None

    def _meter(self, key: QuotaKey, user: str, client_id: str, now_s: float) -> QuotaMeter | None:
        if key not in self.keys:
            return None
        for entity, owner, client in _precedence(user, client_id):
            bound = self._rows.get(entity, {}).get(key)
            if bound is not None:
                return self._shared(key, bound, owner, client, now_s)
        return None

    def _shared(
        self, key: QuotaKey, bound: float, user: str, client_id: str, now_s: float
    ) -> QuotaMeter:
        """The meter of all who share a quota, with what they have used before it changed."""
        place = (key, user, client_id[:_TOLD_APART])
        meter = self._meters.get(place)
        if meter is None:
            if key is QuotaKey.MUTATIONS:
                meter = TokenBucket(bound, self.windows, now_s)
            else:
                meter = SampledRate(bound, self.windows)
            self._meters[place] = meter
            if len(self._meters) > self._most:
                self._meters.popitem(last=False)
        else:
            self._meters.move_to_end(place)
            meter.bound = bound
        return meter


def _precedence(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, str, str]]:
    """Where Kafka looks for the quota of a client, first to last, and who shares it.

    A default quota is for each client that it applies to, not for all of them together.
    """
    yield ((CLIENT_ID, client_id), (USER, user)), user, client_id
    yield ((CLIENT_ID, None), (USER, user)), user, client_id
    yield ((USER, user),), user, ""
    yield ((CLIENT_ID, client_id), (USER, None)), user, client_id
    yield ((CLIENT_ID, None), (USER, None)), user, client_id
    yield ((USER, None),), user, ""
    yield ((CLIENT_ID, client_id),), "", client_id
    yield ((CLIENT_ID, None),), "", client_id

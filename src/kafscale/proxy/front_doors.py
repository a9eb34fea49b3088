"""Where a proxy's clients connect, as settings: one listener, or several by name.

Here: what each listener needs to be opened. `listen` describes one. `listeners` has the broker's
two forms (settings/listeners.py); `listen.tls` and `listen.sasl` say what a listener does not say.
Next door: the other settings (settings.py), opening the listeners (connections/doors.py).
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from kafscale.proxy.upstream.link import UpstreamAddress
from kafscale.proxy.upstream.login import MECHANISMS
from kafscale.settings.listeners import (
    ListenerConflict,
    ListenerSetting,
    check_listeners,
    is_sasl,
    read_listeners_as,
)
from kafscale.settings.security import (
    SaslSection,
    TlsSection,
    check_security,
    mechanisms_of,
    tls_of,
)
from kafscale.settings.values import ConfigError


class ProxyListener(ListenerSetting, frozen=True, kw_only=True):
    """One of several listeners."""

    first_broker_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    users_file: str | None = None  # None: that of listen.sasl


class DoorTls(NamedTuple):
    """Files of a listener's certificates."""

    cert_file: str
    key_file: str
    ca_file: str | None
    client_auth: str


class FrontDoor(NamedTuple):
    """A listener, ready to be opened."""

    name: str  # "": the only one
    address: UpstreamAddress
    told: UpstreamAddress  # port 0: the one that it gets
    first_broker_port: int  # of the upstream's broker 0; 0: any free ports
    tls: DoorTls | None
    mechanisms: tuple[str, ...]
    users_file: str


def read_front_doors(
    raw: object, tls: TlsSection, mechanisms: Sequence[str], users_file: str
) -> list[FrontDoor]:
    """The listeners of `listeners`. Raises ConfigError."""
    sasl = SaslSection(tuple(mechanisms), users_file=users_file, allow_plain_without_tls=True)
    try:
        rows = read_listeners_as(ProxyListener, raw)
        check_listeners(rows, lambda row: True, allow_insecure_bind=True)
        return [_front_door(row, tls, sasl) for row in rows]
    except ListenerConflict as problem:
        raise ConfigError(str(problem)) from None
    except (ValueError, msgspec.ValidationError) as problem:
        raise ConfigError(f"listeners: {problem}") from None


def _front_door(row: ProxyListener, tls: TlsSection, sasl: SaslSection) -> FrontDoor:
    users_file = row.users_file or sasl.users_file or ""
    if is_sasl(row.protocol) and not users_file:
        raise ListenerConflict(f"listeners: {row.name}: {row.protocol} needs usersFile")
    check_security(tls, msgspec.structs.replace(sasl, users_file=users_file), row)
    offered = mechanisms_of(sasl, row)
    if set(offered) - set(MECHANISMS):
        expected = ", ".join(MECHANISMS)
        raise ListenerConflict(f"listeners: {row.name}: expected mechanisms of {expected}")
    found = tls_of(tls, row)
    return FrontDoor(
        row.name,
        UpstreamAddress(row.host, row.port),
        UpstreamAddress(row.advertised_host or row.host, row.advertised_port or 0),
        row.first_broker_port,
        None if found is None else DoorTls(*found[:4]),
        offered,
        users_file,
    )

"""The listeners of a broker as settings: where each one listens and what its clients are told.

Here: the two forms of `listeners`, and the rules between the listeners of one broker. A YAML file
has a list with name, host, port, advertisedHost and advertisedPort each. Variables and flags have
Kafka's short form: INTERNAL://127.0.0.1:9092,EXTERNAL://0.0.0.0:9094.
Next door: certificates and mechanisms (security.py), the other settings (sections.py), opening the
listeners (broker/doors/listeners.py).
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final, Literal, NamedTuple, TypeVar

import msgspec

from kafscale.model.endpoints import PLAINTEXT, Endpoint

PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_.-]*")
_SHORT: Final = re.compile(r"([^\s:/]+)://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_MAX_PORT: Final = 65535


class ListenerSetting(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """One listener. Clients know it by its name: they are told the endpoints of that name."""

    name: str
    protocol: str = ""  # "": the one that the name says, else PLAINTEXT
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=_MAX_PORT)]  # 0: any free one
    advertised_host: str | None = None
    advertised_port: Annotated[int, msgspec.Meta(ge=0, le=_MAX_PORT)] | None = None
    # What is not said here, the sections `tls` and `sasl` say.
    mechanisms: list[str] = []
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None
    client_auth: Literal["none", "requested", "required"] | None = None

    def advertised(self, bound_port: int) -> Endpoint:
        """What clients are told to connect to, once the listener has its port."""
        return Endpoint(
            self.advertised_host or self.host, self.advertised_port or bound_port, self.protocol
        )


L = TypeVar("L", bound=ListenerSetting)


class Advertised(NamedTuple):
    """What the clients of a listener are told, in the short form."""

    name: str
    host: str
    port: int


class Listeners(tuple[ListenerSetting, ...]):
    """All listeners of a broker, in the order they were written."""

    __slots__ = ()


class AdvertisedListeners(tuple[Advertised, ...]):
    """What clients are told, by listener."""

    __slots__ = ()


class ListenerConflict(ValueError):
    """The listeners cannot be opened together; the text names the setting and the reason."""


def read_listeners(raw: object) -> Iterable[ListenerSetting]:
    """Read either form. Raises ValueError."""
    return read_listeners_as(ListenerSetting, raw)


def read_listeners_as(kind: type[L], raw: object) -> list[L]:
    """The same for listeners that have more settings. Raises ValueError."""
    if isinstance(raw, str):
        rows = [
            kind(name=short.name, host=short.host, port=short.port)
            for short in read_advertised(raw)
        ]
    else:
        rows = msgspec.convert(raw, list[kind])  # type: ignore[valid-type]
    return [_with_protocol(row) for row in rows]


def read_advertised(raw: object) -> Iterable[Advertised]:
    """Read the short form. Raises ValueError."""
    if not isinstance(raw, str):
        raise ValueError("not the short form")
    for part in raw.split(","):
        if not part.strip():
            continue
        short = _SHORT.fullmatch(part.strip())
        if short is None or int(short[3]) > _MAX_PORT:
            raise ValueError("not NAME://host:port")
        yield Advertised(short[1].upper(), short[2].strip("[]"), int(short[3]))


def _with_protocol(row: L) -> L:
    name = row.name.upper()
    usual = name if name in PROTOCOLS else PLAINTEXT
    return msgspec.structs.replace(row, name=name, protocol=row.protocol.upper() or usual)


def with_advertised(
    rows: Sequence[ListenerSetting], advertised: Iterable[Advertised]
) -> tuple[ListenerSetting, ...]:
    """The listeners with what `advertisedListeners` says about them. Raises ListenerConflict."""
    told = {row.name: row for row in advertised}
    for name in told.keys() - {row.name for row in rows}:
        raise ListenerConflict(f"advertisedListeners: there is no listener {name}")
    for row in rows:
        if row.name in told and (row.advertised_host or row.advertised_port):
            raise ListenerConflict(
                f"advertisedListeners: listener {row.name} says itself what it advertises"
            )
    return tuple(
        msgspec.structs.replace(
            row, advertised_host=told[row.name].host, advertised_port=told[row.name].port
        )
        if row.name in told
        else row
        for row in rows
    )


def check_listeners(
    rows: Sequence[ListenerSetting],
    is_authenticated: Callable[[ListenerSetting], bool],
    *,
    allow_insecure_bind: bool,
) -> None:
    """Refuse what cannot be opened, or must not be. Raises ListenerConflict.

    `is_authenticated`: whether every client of a listener has to prove who it is.
    """
    for row in rows:
        if not _NAME.fullmatch(row.name):
            raise ListenerConflict(
                "listeners: expected names of letters, digits, '.', '_' and '-', "
                f"found {row.name!r}"
            )
        _check_protocol(row)
        if not (is_loopback(row.host) or allow_insecure_bind or is_authenticated(row)):
            raise ListenerConflict(
                f"listeners: {row.name}: {row.host} is reachable from other machines and "
                f"{row.protocol} without client certificates authenticates no client; set "
                "broker.allowInsecureBind (--allow-insecure-bind) to allow it"
            )
        told = row.advertised_host or row.host
        if is_unspecified(told):
            raise ListenerConflict(
                f"listeners: {row.name}: clients cannot connect to {told}; set its advertisedHost "
                "(--advertised-listeners) to a name or address that they can reach"
            )
    for what, values in (
        ("name", [row.name for row in rows]),
        ("port", [row.port for row in rows if row.port]),
    ):
        for value, count in Counter(values).items():
            if count > 1:
                raise ListenerConflict(f"listeners: {count} listeners have the {what} {value}")


def _check_protocol(row: ListenerSetting) -> None:
    if row.protocol not in PROTOCOLS:
        raise ListenerConflict(
            f"listeners: {row.name}: expected a protocol of {', '.join(PROTOCOLS)}, "
            f"found {row.protocol!r}"
        )


def is_encrypted(protocol: str) -> bool:
    """Whether a protocol has TLS."""
    return protocol.endswith("SSL")


def is_sasl(protocol: str) -> bool:
    """Whether a protocol has SASL."""
    return protocol.startswith("SASL_")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a listener on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may resolve to anything


def is_unspecified(host: str) -> bool:
    """Whether `host` stands for all addresses of a machine, so that no client can connect to it."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host

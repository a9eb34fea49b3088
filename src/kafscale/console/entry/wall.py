"""The wall: what every request must show before a page sees it, and what every answer carries.

Here: whose host name, whose page, which address, which headers. Next door: logins (gate.py), what
a route changes (console/routes.py).
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from kafscale.console.answers.refusals import ApiRefusal

COOKIE: Final = "kafscale_session"
MARK: Final = "X-Kafscale"
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS: Final[dict[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_LOCAL: Final = "localhost"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read addresses and ranges of addresses. Raises ValueError."""
    return tuple(ipaddress.ip_network(text.strip(), strict=False) for text in texts)


@dataclass(frozen=True)
class Wall:
    """The settings that decide which requests come through."""

    bound_host: str
    allowed_hosts: frozenset[str] = frozenset()
    trusted_proxies: tuple[Network, ...] = ()
    base_path: str = "/"
    is_encrypted: bool = False
    own_hosts: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        unspecified = {"0.0.0.0", "::", ""}
        names = {host.lower().strip("[]") for host in (self.bound_host, *self.allowed_hosts)}
        object.__setattr__(self, "own_hosts", frozenset(names - unspecified))

    def check_host(self, header: str | None) -> None:
        """Refuse a Host that is not ours: else any page could rebind its name to this address."""
        host = _host_of(f"//{header}") if header else None
        if host is None or not self._is_ours(host):
            raise ApiRefusal(
                "host", "this console does not answer to that name; see console.allowedHosts"
            )

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Refuse a change that another site's page may have sent."""
        if headers.get(MARK) != "1":
            raise ApiRefusal("cross_site", f"requests that change something need {MARK}: 1")
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        if origin is not None:
            is_own = self._is_own_origin(origin, headers.get("Host", ""))
        else:
            is_own = site == "same-origin"
        if not is_own:
            raise ApiRefusal("cross_site", "the request does not come from this console's page")

    def address(self, peer: str, headers: Mapping[str, str]) -> str:
        """The client's address; what a proxy says counts only if the proxy is trusted."""
        if not self.is_trusted(peer):
            return peer
        for text in reversed(headers.get("X-Forwarded-For", "").split(",")):
            hop = text.strip()
            if not _is_address(hop):
                return peer
            if not self.is_trusted(hop):
                return hop
            peer = hop
        return peer

    def is_trusted(self, address: str) -> bool:
        """Whether an address is one of a trusted proxy."""
        if not _is_address(address):
            return False
        found = ipaddress.ip_address(address)
        return any(found in network for network in self.trusted_proxies)

    def is_secure(self, peer: str, headers: Mapping[str, str]) -> bool:
        """Whether the browser came by https."""
        forwarded = headers.get("X-Forwarded-Proto", "") if self.is_trusted(peer) else ""
        return self.is_encrypted or forwarded.strip().lower() == "https"

    def base(self, peer: str, headers: Mapping[str, str]) -> str:
        """The path of the console as the browser sees it, with a slash at both ends."""
        prefix = headers.get("X-Forwarded-Prefix", "") if self.is_trusted(peer) else ""
        if not prefix or not _is_plain_path(prefix):
            return self.base_path
        return f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"

    def _is_ours(self, host: str) -> bool:
        if host in self.own_hosts or host == _LOCAL or host.endswith(f".{_LOCAL}"):
            return True
        return _is_address(host) and ipaddress.ip_address(host).is_loopback

    def _is_own_origin(self, origin: str, host_header: str) -> bool:
        parts = _split(origin)
        if parts is None or parts[0] not in ("http", "https"):
            return False
        if parts[1] == host_header.lower():
            return True
        host = _host_of(origin)  # a proxy may have changed the port or the name
        return host is not None and host in {name.lower() for name in self.allowed_hosts}


def _split(url: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.scheme.lower(), parts.netloc.lower()


def _host_of(url: str) -> str | None:
    try:
        return (urlsplit(url).hostname or "").lower() or None
    except ValueError:
        return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_plain_path(text: str) -> bool:
    return text.isascii() and all(char.isalnum() or char in "/._-~" for char in text)

"""The settings of TLS and of authentication, and the rules between them.

Here: two sections, and what a listener makes of them. A listener may have certificates and
mechanisms of its own; what it does not say, the sections say.
Next door: the listeners (listeners.py), the other settings (sections.py), opening certificates
(gateways/tls.py), checking who a client is (engine/access).
"""

from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from kafscale.access.certificate_names import DEFAULT_RULES, read_rules
from kafscale.settings.listeners import (
    ListenerConflict,
    ListenerSetting,
    is_encrypted,
    is_loopback,
    is_sasl,
)
from kafscale.settings.sections import FluvioSection, Section
from kafscale.settings.values import ClientAuth, Seconds

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", PLAIN, OAUTHBEARER)


class TlsSection(Section, frozen=True):
    """Certificates of the broker and of its clients."""

    cert_file: str | None = None  # the broker's own, and those between it and the authority
    key_file: str | None = None
    ca_file: str | None = None  # the authorities that sign clients' certificates
    client_auth: ClientAuth = "none"
    principal_mapping_rules: str = DEFAULT_RULES
    min_version: Literal["1.2", "1.3"] = "1.2"
    metrics: bool = False  # metrics and health, too


class OauthSection(Section, frozen=True):
    """What tokens must say, and who signs them."""

    jwks_url: str | None = None
    jwks_file: str | None = None
    ca_file: str | None = None  # of the authority of jwks_url; None: those of the system
    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew: Seconds = Seconds(30)
    refresh_interval: Seconds = Seconds(3600)


class SaslSection(Section, frozen=True):
    """Who may log in, and how."""

    mechanisms: tuple[str, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    users_file: str | None = None  # of PLAIN
    allow_plain_without_tls: bool = False
    admin_user: str | None = None
    admin_password_file: str | None = None
    token_secret_file: str | None = None  # None: there are no delegation tokens
    timeout: Seconds = Seconds(30)
    failure_delay: Seconds = Seconds(0.1)
    session_lifetime: Seconds | None = None  # None: as long as the connection
    oauth: OauthSection = OauthSection()


class ListenerTls(NamedTuple):
    """What a listener with TLS needs."""

    cert_file: str
    key_file: str
    ca_file: str | None
    client_auth: str
    mapping_rules: str
    min_version: str


def tls_of(tls: TlsSection, row: ListenerSetting) -> ListenerTls | None:
    """The certificates of a listener, None if it has no TLS. Raises ListenerConflict."""
    if not is_encrypted(row.protocol):
        return None
    has_own = bool(row.cert_file)
    cert_file = row.cert_file if has_own else tls.cert_file
    key_file = row.key_file if has_own else tls.key_file
    if not cert_file or not key_file:
        missing = "key file" if cert_file else "certificate"
        raise ListenerConflict(
            f"listeners: {row.name}: {row.protocol} needs a {missing}; set tls.certFile and "
            "tls.keyFile"
        )
    ca_file = row.ca_file or tls.ca_file
    client_auth = row.client_auth or tls.client_auth
    if client_auth != "none" and not ca_file:
        raise ListenerConflict(
            f"listeners: {row.name}: clients are asked for certificates; set tls.caFile to the "
            "authorities that sign them"
        )
    return ListenerTls(
        cert_file, key_file, ca_file, client_auth, tls.principal_mapping_rules, tls.min_version
    )


def fluvio_listener(section: FluvioSection) -> ListenerSetting:
    """Both ports of the Fluvio door, as one listener: what clients must show there."""
    return ListenerSetting(
        name="FLUVIO",
        protocol=section.protocol,
        port=section.sc_port or 0,
        cert_file=section.cert_file,
        key_file=section.key_file,
        ca_file=section.ca_file,
        client_auth=section.client_auth,
    )


def mechanisms_of(sasl: SaslSection, row: ListenerSetting) -> tuple[str, ...]:
    """The mechanisms of a listener; none if it has no SASL."""
    if not is_sasl(row.protocol):
        return ()
    return tuple(dict.fromkeys(one.upper() for one in row.mechanisms or sasl.mechanisms))


def password_is_safe(sasl: SaslSection, row: ListenerSetting) -> bool:
    """Whether clients of a listener may send passwords as they are."""
    return is_encrypted(row.protocol) or sasl.allow_plain_without_tls


def pulsar_methods(sasl: SaslSection, row: ListenerSetting) -> tuple[str, ...]:
    """How Pulsar clients log in where Kafka's do so as at this listener; none: they do not."""
    mechanisms = mechanisms_of(sasl, row)
    has_passwords = any(one != OAUTHBEARER for one in mechanisms) and password_is_safe(sasl, row)
    methods = [("basic", has_passwords), ("token", OAUTHBEARER in mechanisms)]
    return tuple(name for name, is_offered in methods if is_offered)


def check_pulsar(sasl: SaslSection, row: ListenerSetting) -> None:
    """Refuse a listener that Pulsar clients could not log in at. Raises ListenerConflict."""
    if is_sasl(row.protocol) and not pulsar_methods(sasl, row):
        raise ListenerConflict(
            f"pulsar.listener: Pulsar clients send passwords, and {row.protocol} of {row.name} "
            "does not encrypt them; set sasl.allowPlainWithoutTls to allow it"
        )


def is_authenticated(tls: TlsSection, row: ListenerSetting) -> bool:
    """Whether every client of a listener has to prove who it is."""
    found = tls_of(tls, row)
    return is_sasl(row.protocol) or (found is not None and found.client_auth == "required")


def check_security(tls: TlsSection, sasl: SaslSection, row: ListenerSetting) -> None:
    """Refuse a listener that cannot be secured as it says. Raises ListenerConflict."""
    if bool(row.cert_file) != bool(row.key_file):
        raise ListenerConflict(f"listeners: {row.name}: certFile and keyFile belong together")
    tls_of(tls, row)
    for mechanism in mechanisms_of(sasl, row):
        _check_mechanism(sasl, row, mechanism)
    if is_sasl(row.protocol) and not mechanisms_of(sasl, row):
        raise ListenerConflict(f"listeners: {row.name}: {row.protocol} needs a mechanism")


def _check_mechanism(sasl: SaslSection, row: ListenerSetting, mechanism: str) -> None:
    if mechanism not in MECHANISMS:
        raise ListenerConflict(
            f"listeners: {row.name}: expected mechanisms of {', '.join(MECHANISMS)}, "
            f"found {mechanism!r}"
        )
    if mechanism == PLAIN:
        if not sasl.users_file:
            raise ListenerConflict(f"sasl.usersFile: listener {row.name} offers PLAIN, found none")
        if not password_is_safe(sasl, row):
            raise ListenerConflict(
                f"listeners: {row.name}: PLAIN sends passwords and {row.protocol} does not encrypt "
                "them; set sasl.allowPlainWithoutTls to allow it"
            )
    oauth = sasl.oauth
    if mechanism == OAUTHBEARER and bool(oauth.jwks_url) == bool(oauth.jwks_file):
        raise ListenerConflict(
            f"sasl.oauth.jwksUrl: listener {row.name} offers OAUTHBEARER; expected either this or "
            "sasl.oauth.jwksFile"
        )


def check_sections(tls: TlsSection, sasl: SaslSection) -> None:
    """Refuse what contradicts itself. Raises ListenerConflict."""
    if bool(tls.cert_file) != bool(tls.key_file):
        missing, present = ("keyFile", "certFile") if tls.cert_file else ("certFile", "keyFile")
        raise ListenerConflict(f"tls.{missing}: expected beside tls.{present}, found none")
    try:
        read_rules(tls.principal_mapping_rules)
    except ValueError as problem:
        raise ListenerConflict(f"tls.principalMappingRules: {problem}") from None
    if tls.metrics and not tls.cert_file:
        raise ListenerConflict("tls.certFile: expected beside tls.metrics, found none")
    if tls.metrics and tls.client_auth != "none" and not tls.ca_file:
        raise ListenerConflict("tls.caFile: expected beside tls.clientAuth, found none")
    if bool(sasl.admin_user) != bool(sasl.admin_password_file):
        missing, present = (
            ("adminPasswordFile", "adminUser")
            if sasl.admin_user
            else ("adminUser", "adminPasswordFile")
        )
        raise ListenerConflict(f"sasl.{missing}: expected beside sasl.{present}, found none")
    url = sasl.oauth.jwks_url
    if url and not _is_safe_address(url):
        raise ListenerConflict(
            "sasl.oauth.jwksUrl: expected https://..., since its keys decide who gets in; "
            f"found {url!r}"
        )


def _is_safe_address(url: str) -> bool:
    """Whether what an address answers cannot be changed on its way."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return url.startswith("https://") or (url.startswith("http://") and is_loopback(host))


def metrics_tls(tls: TlsSection) -> ListenerTls | None:
    """The certificates of metrics and health, None without TLS."""
    if not tls.metrics:
        return None
    return ListenerTls(
        tls.cert_file or "",
        tls.key_file or "",
        tls.ca_file,
        tls.client_auth,
        tls.principal_mapping_rules,
        tls.min_version,
    )

"""TLS of listeners: the broker's certificate, clients' certificates, new ones without a restart.

Here: one SSL context per listener, made again when its files change. Connections that are open keep
what they began with; each new one gets the newest certificates.
Next door: which listener has which files (settings/security.py), what a client's certificate means
(access/certificate_names.py), accepting connections (listener.py).
Never here: passwords of key files, and sessions that are resumed: a client whose authority is no
longer trusted must not come back with an old session.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from kafscale.access.certificate_names import Subject, principal_name, read_rules
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import ANONYMOUS, Principal

logger = structlog.get_logger()

HANDSHAKE_WITHIN_S: Final = 10.0  # a client that has connected and does not go on costs a socket
_REREAD_EVERY_S: Final = 1.0
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class UnusableCertificates(KafscaleError):
    """Certificates or keys cannot be used; the text names the files and the reason."""


class TlsFiles(NamedTuple):
    """What a listener's TLS is made of."""

    cert_file: str
    key_file: str
    ca_file: str | None = None  # the authorities that sign clients' certificates
    client_auth: str = "none"
    mapping_rules: str = "DEFAULT"
    min_version: str = "1.2"


class _Handshake(ssl.SSLObject):
    """One side of a connection. If its handshake fails, the error has the alert for the other."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        """Go on with the handshake."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as problem:
            problem.alert = self.outgoing.read()  # type: ignore[attr-defined]
            raise


class _Context(ssl.SSLContext):
    """Event loops drop what a failed handshake has to say; this keeps it (decision 69)."""

    sslobject_class = _Handshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection."""
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made


def alert_of(problem: OSError) -> bytes:
    """What the other side of a failed handshake should hear; b"" if there is nothing."""
    alert: bytes = getattr(problem, "alert", b"")
    return alert


class Tls:
    """The TLS of one listener. `context` stays the same while certificates change behind it."""

    def __init__(self, name: str, files: TlsFiles) -> None:
        """Read the files. Raises UnusableCertificates."""
        self._name = name
        self._files = files
        self._rules = read_rules(files.mapping_rules)
        self._signature = self._sign()
        self._newest = self._make()
        # A handshake begins with this one and goes on with the newest, of which it takes the
        # certificate and the authorities. Both ask clients for the same.
        self.context = self._make()
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, server_name: str | None, first: object) -> None:
        connection.context = self._newest

    def _make(self) -> ssl.SSLContext:
        files = self._files
        context = _Context(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[files.min_version]
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        context.verify_mode = _VERIFY[files.client_auth]
        try:
            context.load_cert_chain(files.cert_file, files.key_file, password=_no_password)
        except (OSError, ValueError) as problem:
            raise UnusableCertificates(
                f"cannot use {files.cert_file} with the key {files.key_file}: {_reason(problem)}"
            ) from None
        if files.ca_file is not None:
            try:
                context.load_verify_locations(files.ca_file)
            except (OSError, ValueError) as problem:
                raise UnusableCertificates(
                    f"cannot use the authorities of {files.ca_file}: {_reason(problem)}"
                ) from None
        return context

    def to_peers(self, *, shows_own: bool) -> ssl.SSLContext:
        """What connects to other brokers of the fleet, whose authorities this one must know.

        It knows the machine's, those of clients, and what is in the file of its own certificate.
        `shows_own`: the broker shows its certificate where it is asked for one.
        """
        files = self._files
        context = ssl.create_default_context()
        context.minimum_version = _VERSIONS[files.min_version]
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        for known in filter(None, (files.ca_file, files.cert_file)):
            context.load_verify_locations(known)
        if shows_own:
            context.load_cert_chain(files.cert_file, files.key_file, password=_no_password)
        return context

    def _sign(self) -> tuple[object, ...]:
        """What changes when a file does; a mounted secret is a link to another file then."""
        files = self._files
        return tuple(
            _stat(name)
            for name in (files.cert_file, files.key_file, files.ca_file)
            if name is not None
        )

    def reread(self) -> None:
        """Take new certificates if files have changed; unusable ones are left alone, and logged."""
        signature = self._sign()
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._newest = self._make()
        except UnusableCertificates as problem:
            # Perhaps one of two files has been replaced so far: the other will change, too.
            logger.error("certificates_unusable", listener=self._name, reason=str(problem))
        else:
            logger.info("certificates_reread", listener=self._name)

    async def keep_reread(self) -> None:
        """Look for new certificates now and then, until cancelled."""
        while True:
            await asyncio.sleep(_REREAD_EVERY_S)
            self.reread()

    def principal_of(self, certificate: dict[str, Subject] | None) -> Principal:
        """Who a client's certificate stands for. Raises AuthenticationFailed if no rule fits."""
        if not certificate:
            return ANONYMOUS
        return Principal("User", principal_name(self._rules, certificate["subject"]))


def _no_password() -> str:
    raise ValueError("the key is encrypted; store it without a password")


def _reason(problem: Exception) -> str:
    if isinstance(problem, ssl.SSLError):
        return problem.reason or "it is not in PEM form"
    return getattr(problem, "strerror", None) or str(problem)


def _stat(name: str) -> object:
    try:
        found = Path(name).stat()
    except OSError as problem:
        return problem.errno
    return found.st_ino, found.st_mtime_ns, found.st_size

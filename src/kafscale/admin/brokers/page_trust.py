"""Which certificates a tool trusts, and shows, when it reads a broker's page for operators.

Here: one TLS context, by the settings of the Kafka client, or by those of the broker itself.
Next door: reading the page (members.py, admin/cost/metrics_page.py, admin/diagnosis.py).
Never here: contexts of brokers (gateways/tls.py).
"""

import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kafscale.admin.errors import AdminError
from kafscale.settings.security import TlsSection

_SYSTEM: Final = "probe"  # librdkafka's word for the authorities of the system


def trust_of_client(
    properties: Mapping[str, object], pages: Iterable[str]
) -> ssl.SSLContext | None:
    """Trust and show what librdkafka's settings say. Raises AdminError.

    None: no page is encrypted, so that settings of certificates do not matter.
    """
    if not any(page.startswith("https://") for page in pages):
        return None
    named = {
        name: str(properties[f"ssl.{name}"])
        for name in ("ca.location", "certificate.location", "key.location", "key.password")
        if properties.get(f"ssl.{name}")
    }
    try:
        context = _context(named.get("ca.location", _SYSTEM))
        if "certificate.location" in named:
            context.load_cert_chain(
                named["certificate.location"], named.get("key.location"), named.get("key.password")
            )
    except OSError as problem:  # of TLS, too
        raise AdminError(f"unusable certificates ({_named(named)}): {_reason(problem)}") from None
    return context


def trust_of_broker(tls: TlsSection) -> ssl.SSLContext | None:
    """Trust the broker's own certificate and no other; None without TLS. Raises AdminError.

    The certificate proves itself, whatever name the broker is reached by on this machine.
    """
    if not tls.metrics or tls.cert_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(tls.cert_file)
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except OSError as problem:
        files = f"{tls.cert_file}, {tls.key_file}"
        raise AdminError(f"unusable certificates ({files}): {_reason(problem)}") from None
    return context


def _context(authorities: str) -> ssl.SSLContext:
    if authorities == _SYSTEM:
        return ssl.create_default_context()
    if Path(authorities).is_dir():
        return ssl.create_default_context(capath=authorities)
    return ssl.create_default_context(cafile=authorities)


def _named(files: Mapping[str, str]) -> str:
    return ", ".join(value for name, value in files.items() if name != "key.password")


def _reason(problem: OSError) -> str:
    return problem.strerror or str(problem)

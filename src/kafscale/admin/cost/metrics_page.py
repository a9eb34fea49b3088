"""Reading a broker's metrics page: names, labels, numbers.

Next door: writing it (model/metrics/meters.py). Never here: what the numbers mean.
"""

import http.client
import re
import ssl
import urllib.request
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from kafscale.admin.errors import AdminError

_LINE: Final = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})? (\S+)", re.DOTALL)
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"n": "\n"}
_PATIENCE_S: Final = 10


class MetricSample(NamedTuple):
    """One number of one series."""

    name: str
    labels: dict[str, str]
    value: float


def fetch(url: str, trust: ssl.SSLContext | None = None) -> str:
    """Get a metrics page; a bare host:port means the usual one, without TLS.

    `trust`: for https, what the page's certificate must fit; None: the system's authorities.
    """
    full = url if "://" in url else f"http://{url}"
    if not full.startswith(("http://", "https://")):
        raise AdminError(f"{url}: metrics are at http://host:port/metrics")
    if full.count("/") == 2:
        full += "/metrics"
    try:
        with urllib.request.urlopen(full, timeout=_PATIENCE_S, context=trust) as answer:
            text: str = answer.read().decode("utf-8")
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as problem:
        reason = getattr(problem, "reason", problem)
        raise AdminError(f"cannot read metrics from {full}: {reason}") from problem
    return text


def parse_samples(text: str, names: Collection[str]) -> Iterator[MetricSample]:
    """Yield the samples of these names."""
    for line in text.split("\n"):  # a label may hold what else counts as the end of a line
        match = _LINE.fullmatch(line)
        if match and match[1] in names:
            labels = {
                label: re.sub(r"\\(.)", lambda at: _ESCAPES.get(at[1], at[1]), value)
                for label, value in _LABEL.findall(match[2] or "")
            }
            yield MetricSample(match[1], labels, float(match[3]))

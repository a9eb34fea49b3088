"""Asking a Prometheus server for numbers over a long time.

Next door: a broker's own page (metrics_page.py). Never here: which series are asked for.
"""

import http.client
import urllib.parse
import urllib.request
from typing import Final

import msgspec

from kafscale.admin.errors import AdminError

_PATIENCE_S: Final = 20
_LARGEST: Final = 16 << 20


class RangeLine(msgspec.Struct):
    """One series of an answer: its labels, and pairs of Unix time and number."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[RangeLine]


class _Answer(msgspec.Struct):
    data: _Data


def query_range(
    server: str, expression: str, first_s: int, last_s: int, step_s: int
) -> list[RangeLine]:
    """Ask for an expression at every step between two moments. Raises AdminError."""
    question = urllib.parse.urlencode(
        {"query": expression, "start": first_s, "end": last_s, "step": step_s}
    )
    url = f"{server.rstrip('/')}/api/v1/query_range?{question}"
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_S) as answer:
            body = answer.read(_LARGEST + 1)
    except (OSError, http.client.HTTPException) as problem:
        reason = getattr(problem, "reason", problem)
        raise AdminError(f"Prometheus at {server} does not answer: {reason}") from problem
    if len(body) > _LARGEST:
        raise AdminError(f"Prometheus at {server} answered more than {_LARGEST} bytes")
    try:
        return msgspec.json.decode(body, type=_Answer).data.result
    except msgspec.DecodeError as bad:
        raise AdminError(f"Prometheus at {server} answered no range: {bad}") from bad

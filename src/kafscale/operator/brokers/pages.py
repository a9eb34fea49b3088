"""What brokers and activators say on their own pages.

Next door: what follows from it (planning/rolling.py, planning/health.py).
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Final

import aiohttp

from kafscale.admin.cost.metrics_page import parse_samples
from kafscale.operator.kinds.seen import Pod
from kafscale.operator.parts.common import METRICS_PORT
from kafscale.operator.planning.seen_cluster import SeenBroker

_WITHIN_S: Final = 3.0
_MOST_BYTES: Final = 8 << 20
_GENERATION: Final = "kafscale_members_generation"
_STOPPED: Final = "kafscale_logs_stopped"
_STORE: Final = "kafscale_s3_health_state"
_CONNECTIONS: Final = "kafscale_active_connections"
_NAMES: Final = (_GENERATION, _STOPPED, _STORE, _CONNECTIONS)


async def read_facts(http: aiohttp.ClientSession, pods: Iterable[Pod]) -> dict[str, SeenBroker]:
    """Ask all brokers; those that do not answer are left out."""
    asked = [pod for pod in pods if pod.status.pod_ip and not pod.metadata.deletion_timestamp]
    answers = await asyncio.gather(*(_read(http, pod.status.pod_ip) for pod in asked))
    return {
        pod.metadata.name: facts
        for pod, facts in zip(asked, answers, strict=True)
        if facts is not None
    }


async def _read(http: aiohttp.ClientSession, address: str) -> SeenBroker | None:
    try:
        async with asyncio.timeout(_WITHIN_S):
            ready = json.loads(await _get(http, address, "/ready"))
            page = await _get(http, address, "/metrics")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None
    return facts_of(ready, page.decode("utf-8", "replace"))


def facts_of(ready: dict[str, object], page: str) -> SeenBroker:
    """Read the facts from the two pages of a broker."""
    numbers: dict[str, float] = {}
    is_store_unavailable = False
    for name, labels, value in parse_samples(page, _NAMES):
        if name == _STORE:
            is_store_unavailable |= labels.get("state") == "unavailable" and value == 1
        else:
            numbers[name] = value
    reasons = ready.get("reasons")
    return SeenBroker(
        reasons=tuple(str(one) for one in reasons) if isinstance(reasons, list) else (),
        generation=int(numbers.get(_GENERATION, 0)),
        logs_stopped=int(numbers.get(_STOPPED, 0)),
        is_store_unavailable=is_store_unavailable,
        connections=int(numbers.get(_CONNECTIONS, 0)),
    )


async def waiting_clients(http: aiohttp.ClientSession, pods: Iterable[Pod]) -> int:
    """How many clients wait at the activators of a cluster."""
    found = 0
    for pod in pods:
        try:
            async with asyncio.timeout(_WITHIN_S):
                answer = json.loads(await _get(http, pod.status.pod_ip, "/waiting"))
                found += int(answer["waiting"])
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError):
            continue  # it will be asked again in a moment
    return found


async def _get(http: aiohttp.ClientSession, address: str, path: str) -> bytes:
    host = f"[{address}]" if ":" in address else address
    async with http.get(f"http://{host}:{METRICS_PORT}{path}") as answer:
        body = await answer.content.read(_MOST_BYTES)
        while not answer.content.at_eof() and len(body) < _MOST_BYTES:
            body += await answer.content.read(_MOST_BYTES - len(body))
        return body

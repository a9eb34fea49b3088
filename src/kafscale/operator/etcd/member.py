"""What a member of the managed etcd does before it starts: find out whether it is new.

Here: a member that has its data just goes on. One without data asks the others: if they know it as
a member that ran before, it has lost its volume, and would never be let in again under its old
identity. So it has itself removed and added anew, and joins.
Next door: asking etcd (gateway.py), where this runs (parts/etcd.py).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog
import yaml

from kafscale.model.errors import MetadataUnavailable
from kafscale.operator.etcd.gateway import ask

logger = structlog.get_logger()

NEW: Final = "new"
EXISTING: Final = "existing"
_CLIENT: Final = 2379
_PEER: Final = 2380
_QUOTA_BYTES: Final = 2 << 30


def member_names(name: str, count: int) -> list[str]:
    """The names of all members, by the name of one of them."""
    base = name.rpartition("-")[0]
    return [f"{base}-{number}" for number in range(count)]


def settings_of(
    name: str, service: str, count: int, listen: str, data: str, state: str
) -> dict[str, Any]:
    """The settings of one member."""
    names = member_names(name, count)
    return {
        "name": name,
        "data-dir": data,
        "listen-client-urls": f"http://{listen}:{_CLIENT}",
        "advertise-client-urls": f"http://{name}.{service}:{_CLIENT}",
        "listen-peer-urls": f"http://{listen}:{_PEER}",
        "initial-advertise-peer-urls": peer_url(name, service),
        "initial-cluster": ",".join(f"{one}={peer_url(one, service)}" for one in names),
        "initial-cluster-state": state,
        "initial-cluster-token": service,
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "quota-backend-bytes": _QUOTA_BYTES,
    }


def peer_url(name: str, service: str) -> str:
    """Where other members reach one."""
    return f"http://{name}.{service}:{_PEER}"


async def prepare(
    name: str, service: str, count: int, listen: str, data_dir: Path, write: Path
) -> str:
    """Write the settings of a member; gives the state that it begins in."""
    # Without a log of its own, etcd begins anew, whatever else is in the folder.
    state = EXISTING if any((data_dir / "member" / "wal").glob("*.wal")) else NEW
    if state == NEW:
        others = [one for one in member_names(name, count) if one != name]
        async with aiohttp.ClientSession() as http:
            state = await join(http, name, service, others)
    settings = settings_of(name, service, count, listen, str(data_dir), state)
    write.write_text(yaml.safe_dump(settings))
    logger.info("member_prepared", name=name, state=state)
    return state


async def join(http: aiohttp.ClientSession, name: str, service: str, others: Sequence[str]) -> str:
    """Find out how a member without data begins; replaces its lost self if the others know one."""
    for other in others:
        endpoint = f"http://{other}.{service}:{_CLIENT}"
        try:
            members = (await ask(http, endpoint, "/v3/cluster/member/list", {})).get("members", [])
        except MetadataUnavailable as problem:
            logger.info("member_silent", member=other, error=str(problem))
            continue
        mine = _known_as(members, name, service)
        if mine is not None and not mine.get("clientURLs"):
            # It has never run. Where others run already, it was added anew and comes late.
            return EXISTING if any(one.get("clientURLs") for one in members) else NEW
        if mine is not None:
            await ask(http, endpoint, "/v3/cluster/member/remove", {"ID": mine["ID"]})
            logger.info("lost_member_removed", name=name)
        if mine is not None or members:
            await ask(
                http, endpoint, "/v3/cluster/member/add", {"peerURLs": [peer_url(name, service)]}
            )
            return EXISTING
    return NEW


def _known_as(
    members: Sequence[Mapping[str, Any]], name: str, service: str
) -> Mapping[str, Any] | None:
    url = peer_url(name, service)
    return next(
        (one for one in members if one.get("name") == name or url in one.get("peerURLs", [])), None
    )

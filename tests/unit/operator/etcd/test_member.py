"""How a member of etcd begins: new, with its data, or again after it has lost them."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from kafscale.model.errors import MetadataUnavailable
from kafscale.operator.etcd import member
from kafscale.operator.etcd.member import EXISTING, NEW, prepare


class Gateway:
    """What the other members say, and what they were asked."""

    def __init__(self, members: list[dict[str, Any]] | None) -> None:
        self.members = members
        self.asked: list[str] = []

    async def ask(
        self, http: aiohttp.ClientSession, endpoint: str, path: str, body: object
    ) -> dict[str, Any]:
        if self.members is None:
            raise MetadataUnavailable(endpoint)
        self.asked.append(path.rpartition("/")[2])
        return {"members": self.members}


async def begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: list[dict[str, Any]] | None
) -> tuple[str, list[str], dict[str, Any]]:
    gateway = Gateway(members)
    monkeypatch.setattr(member, "ask", gateway.ask)
    file = tmp_path / "etcd.yaml"
    state = await prepare("c-etcd-1", "c-etcd.team.svc", 3, "0.0.0.0", tmp_path / "data", file)
    return state, gateway.asked, yaml.safe_load(file.read_text())


def known(name: str, *, ran: bool) -> dict[str, Any]:
    return {"ID": "7", "name": name, "clientURLs": ["http://x:2379"] if ran else []}


@pytest.mark.parametrize(
    ("members", "state", "asked"),
    [
        (None, NEW, []),  # all begin together
        ([known("c-etcd-0", ran=False), known("c-etcd-1", ran=False)], NEW, ["list"]),
        # It ended between its addition and its first start, or its image came late.
        ([known("c-etcd-0", ran=True), known("c-etcd-1", ran=False)], EXISTING, ["list"]),
        (
            [known("c-etcd-0", ran=True), known("c-etcd-1", ran=True)],
            EXISTING,
            ["list", "remove", "add"],
        ),
        ([known("c-etcd-0", ran=True)], EXISTING, ["list", "add"]),
    ],
)
async def test_a_member_without_data_asks_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: list[dict[str, Any]] | None,
    state: str,
    asked: list[str],
) -> None:
    found, questions, settings = await begin(tmp_path, monkeypatch, members)
    assert (found, questions) == (state, asked)
    assert settings["initial-cluster-state"] == state
    assert settings["initial-cluster"].count("=") == 3


async def test_a_member_with_its_data_asks_no_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "data/member/wal/0.wal"
    log.parent.mkdir(parents=True)
    log.touch()
    state, asked, _ = await begin(tmp_path, monkeypatch, [known("c-etcd-1", ran=True)])
    assert (state, asked) == (EXISTING, [])

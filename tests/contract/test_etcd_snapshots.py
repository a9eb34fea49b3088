"""Snapshots of a real etcd: read page by page, and put back into an etcd."""

import hashlib
from collections.abc import Iterator

import aiohttp
import pytest

from kafscale.local import programs
from kafscale.local.errors import ProgramMissing
from kafscale.metadata import keys
from kafscale.model.errors import CorruptObject
from kafscale.operator.etcd.gateway import check_snapshot, read_snapshot
from kafscale.operator.etcd.snapshot_load import NoSnapshot, replace, wanted_rows
from kafscale.operator.etcd.snapshot_pages import newest_rows
from kafscale.system import SystemClock
from tests.support import etcd

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

PREFIX = "/team"
ROOT = f"{PREFIX}{keys.ROOT}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[etcd.EtcdCluster]:
    """An etcd with its HTTP gateway, which Debian's has not."""
    try:
        monkeypatch.setenv("KAFSCALE_TEST_ETCD", str(programs.etcd().parent))
    except ProgramMissing as reason:
        pytest.skip(str(reason))
    with etcd.EtcdCluster() as started:
        yield started


def rows_of(data: bytes) -> dict[bytes, bytes]:
    return {key: row.value for key, row in newest_rows(data).items()}


async def test_a_loaded_snapshot_gives_back_what_etcd_held(server: etcd.EtcdCluster) -> None:
    endpoint = f"http://{server.endpoints[0]}"
    # Enough rows for several levels of pages, and values larger than a page.
    held = {f"{ROOT}/topics/{n:04}/config".encode(): b"%d" % n for n in range(600)}
    held |= {f"{ROOT}/large/{n}".encode(): bytes([n]) * 9000 for n in range(100)}
    held[f"{PREFIX}{keys.CLUSTER}".encode()] = b'{"id":"one"}'
    async with aiohttp.ClientSession() as http:
        clock = SystemClock()
        await replace(http, endpoint, dict.fromkeys(held, b"before"), PREFIX, clock)
        await replace(http, endpoint, held, PREFIX, clock)
        server.ctl("put", "/another/kafscale/topics/x", "of another cluster")
        server.ctl("del", f"{ROOT}/topics/0007/config")
        lease = server.ctl("lease", "grant", "600").split()[1]
        server.ctl("put", f"--lease={lease}", f"{PREFIX}{keys.BROKERS}0", "a broker")
        data = await read_snapshot(http, endpoint)
        check_snapshot(data)
        with pytest.raises(NoSnapshot, match="1 brokers run"):
            await replace(http, endpoint, held, PREFIX, clock)
        server.revoke([lease])

        # Everything is lost and something else came into its place.
        server.ctl("del", "--prefix", f"{ROOT}/")
        server.ctl("put", f"{ROOT}/topics/later/config", "made after the snapshot")
        wanted = wanted_rows(data, PREFIX)
        assert await replace(http, endpoint, wanted, PREFIX, clock) == 1
        # A second run, as after a kill, changes nothing.
        assert await replace(http, endpoint, wanted, PREFIX, clock) == 0
        found = rows_of(await read_snapshot(http, endpoint))
    del held[f"{ROOT}/topics/0007/config".encode()]
    note = f"{PREFIX}{keys.RECOVERY}".encode()
    assert found.pop(note)  # no broker starts before `kafscale recover` has run
    assert found.pop(b"/another/kafscale/topics/x") == b"of another cluster"
    assert found == held


async def test_broken_snapshots_are_refused(server: etcd.EtcdCluster) -> None:
    server.ctl("put", f"{ROOT}/topics/orders/config", "x" * 3000)
    async with aiohttp.ClientSession() as http:
        data = await read_snapshot(http, f"http://{server.endpoints[0]}")
    with pytest.raises(NoSnapshot, match="no cluster under"):
        wanted_rows(data, PREFIX)
    body = data[:-32]
    for cut in (0, 40, 100, 4096, 5000, len(body) // 2):
        with pytest.raises(CorruptObject):
            newest_rows(body[:cut] + bytes(32))
    # Wrong bytes behind a hash that fits them end in an answer or in a refusal, never otherwise.
    for at in range(0, len(body), 97):
        changed = body[:at] + bytes([body[at] ^ 0x55]) + body[at + 1 :]
        try:
            newest_rows(changed + hashlib.sha256(changed).digest())
        except CorruptObject:
            pass

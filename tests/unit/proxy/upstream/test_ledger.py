"""What proxies share: rows that count when they have been read back, whatever else lies there."""

from typing import Any

import pytest

from kafscale.proxy.coordination.members import FIRST_NODE, Members
from kafscale.proxy.coordination.members import KEY as MEMBER
from kafscale.proxy.coordination.offsets import VirtualOffsets
from kafscale.proxy.upstream import ledger as module
from kafscale.proxy.upstream.cluster import UpstreamRefused
from kafscale.proxy.upstream.ledger import Ledger
from kafscale.proxy.upstream.link import UpstreamLost
from kafscale.records.record import Record, build_batch
from kafscale.tasks import Tasks
from kafscale.testing.clock import ManualClock
from kafscale.wire.kafka.errors import ErrorCode

pytestmark = pytest.mark.asyncio


def a_ledger() -> Ledger:
    return Ledger(None, ManualClock(), Tasks())  # type: ignore[arg-type]


async def test_a_row_that_cannot_be_read_hides_no_other() -> None:
    ledger = a_ledger()
    members = Members(0, ledger, ManualClock())
    VirtualOffsets(ledger)
    rows = [
        (MEMBER + b"no number", b"{}"),
        (MEMBER + b"%d" % (FIRST_NODE + 1), b"no row"),
        (b"offset\0[]", b"[1]"),
        (b'offset\0["g","t",0]', b'[1,-1,""]'),
        (b"of a later version", b"?"),
        (MEMBER + b"%d" % (FIRST_NODE + 2), b'{"host":"h","port":1,"beat":1}'),
    ]
    records = [Record(at, 0, key, value) for at, (key, value) in enumerate(rows)]
    ledger._take(memoryview(build_batch(records, base_offset=0)))
    assert [peer.node for peer in members.alive] == [FIRST_NODE + 2]


async def test_a_row_is_written_when_enough_replicas_are_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0)
    ledger = a_ledger()
    problems: list[Exception] = [
        UpstreamLost("on purpose"),
        UpstreamRefused(ErrorCode.NOT_ENOUGH_REPLICAS, "ledger"),
        UpstreamRefused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "ledger"),
        TimeoutError(),
    ]

    async def append(batch: Any) -> int:
        if problems:
            raise problems.pop(0)
        ledger._next = 1
        return 0

    monkeypatch.setattr(ledger, "_append", append)
    await ledger.write({b"key": b"value"})
    assert problems == []
    problems.append(UpstreamRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "ledger"))
    with pytest.raises(UpstreamRefused):
        await ledger.write({b"key": b"value"})

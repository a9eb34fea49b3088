"""Review: series of a topic that moves."""

import asyncio
from collections import Counter

from kafscale.engine import moves
from kafscale.engine.census import Census
from tests.unit.engine.shop import Shop
from tests.unit.engine.test_administration import adding
from tests.unit.engine.test_moves import filled

__all__ = ["filled"]


async def test_each_series_is_there_once(filled: Shop, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(moves, "NEAR_BYTES", -1)
    await filled.engine.admin.change_configs("t", adding("physical.partitions", "2"))
    await asyncio.sleep(0.3)
    engine = filled.engine
    census = Census(engine.logs.each, engine.topics.residents, lambda: engine.topics.revision)
    for rows in (census.lanes(), census.records()):
        seen = Counter(tuple(labels) for labels, _ in rows)
        assert max(seen.values()) == 1, seen

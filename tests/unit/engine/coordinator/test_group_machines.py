"""Groups that change their type are saved as what they are, and loaded as that."""

import json
from typing import Any

from kafscale.groups.classic.events import Heartbeat, Join, Joined, Sync, Synced
from kafscale.groups.consumer.events import LEFT, Beat, Beaten, Depart
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.model.errors import RebalanceInProgress
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.groups.mixed_group import TOPIC, codec, numbers_of, subscription

KEY = "/kafscale/consumers/g/metadata"


async def ask(harness: EngineHarness, kind: type[Any], **fields: Any) -> GroupOutcome:
    groups = harness.engine.groups
    await groups.load("g")
    waiting = groups.ask("g", kind(call=groups.new_call(), **fields))
    return await groups.settled("g", waiting, fields.get("member_id", ""))


async def join(harness: EngineHarness, member_id: str = "") -> Joined:
    outcome = await ask(
        harness,
        Join,
        member_id=member_id,
        fresh_id="old",
        session_timeout_s=10.0,
        rebalance_timeout_s=60.0,
        protocol_type="consumer",
        protocols={"range": subscription()},
    )
    assert isinstance(outcome, Joined)
    return outcome


async def saved_type(harness: EngineHarness) -> str:
    entry = await harness.metadata.get(KEY)
    assert entry is not None
    found: str = json.loads(entry.value)["group_type"]
    return found


async def test_a_group_moves_to_the_newer_protocol_and_back_over_restarts(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create(TOPIC, 2, {})
    await join(harness)
    every = codec.write_assignment([(TOPIC, [0, 1])])
    await ask(harness, Sync, member_id="old", generation=1, assignments={"old": every})
    assert await saved_type(harness) == "classic"

    newer = {"rebalance_timeout_s": 60.0, "names": frozenset({TOPIC}), "owned": frozenset()}
    assert isinstance(await ask(harness, Beat, member_id="new", **newer), Beaten)
    assert await saved_type(harness) == "consumer"
    await harness.reopen()
    told = await ask(harness, Heartbeat, member_id="old", generation=1)
    assert isinstance(told, Rejected)
    assert isinstance(told.problem, RebalanceInProgress)
    assert (await join(harness, "old")).generation == 2
    synced = await ask(harness, Sync, member_id="old", generation=2)
    assert isinstance(synced, Synced)
    assert len(numbers_of(synced.assignment)) == 1

    await ask(harness, Depart, member_id="new", epoch=LEFT)
    await harness.reopen()
    again = await join(harness, "old")
    assert again.leader == "old"
    await ask(
        harness,
        Sync,
        member_id="old",
        generation=again.generation,
        assignments={"old": every},
    )
    assert await saved_type(harness) == "classic"

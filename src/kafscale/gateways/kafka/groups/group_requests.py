"""What the APIs of group members have in common: loading the group, then applying an event.

Next door: what groups do (engine/coordinator/groups.py), one file per API (apis/).
"""

from collections.abc import Coroutine
from typing import Any

from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Call
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.groups.events import Event, GroupOutcome, Rejected
from kafscale.model.errors import KafscaleError


def require_loaded(call: Call) -> Coroutine[Any, Any, None] | None:
    """Load the group before the request begins, if this broker has not loaded it yet."""
    groups = call.engine.groups
    group_id: str = call.message.group_id
    return None if groups.is_loaded(group_id) else groups.load(group_id)


def require_claimed(call: Call) -> Coroutine[Any, Any, None] | None:
    """Load the group and claim it for this broker, which a write about it needs."""
    engine = call.engine
    group_id: str = call.message.group_id
    if engine.groups.is_loaded(group_id) and engine.offsets.is_claimed(group_id):
        return None
    return _load_and_claim(call)


async def _load_and_claim(call: Call) -> None:
    await call.engine.groups.load(call.message.group_id)
    await call.engine.offsets.claim(call.message.group_id)


def apply(call: Call, event: Event) -> GroupOutcome:
    """Apply an event that the group answers at once."""
    try:
        return call.engine.groups.ask(call.message.group_id, event).result()
    except KafscaleError as problem:
        return Rejected(problem)


def code_of_outcome(call: Call, outcome: GroupOutcome) -> int:
    """The code of an outcome; errors that the client caused are counted."""
    if not isinstance(outcome, Rejected):
        return 0
    client_errors.note(call, outcome.problem)
    return coordinator_code_of(outcome.problem)

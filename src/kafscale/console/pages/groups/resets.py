"""Moving a group's offsets: a plan that people look at, then that very plan.

Here: making plans, checking that nothing has changed since. A plan names itself by what it says:
the server keeps none. Next door: what brokers are asked (admin/groups/group_resets.py).
"""

from collections.abc import Sequence
from typing import Final

from kafscale.admin.brokers.client import KafkaAdmin
from kafscale.admin.brokers.offsets import PartitionName
from kafscale.admin.errors import AdminError
from kafscale.admin.groups import group_resets, groups
from kafscale.admin.groups.group_resets import PlannedOffset, ResetTarget
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import (
    Confirmation,
    PlanRow,
    ResetExecution,
    ResetPlan,
    ResetRequest,
)
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.pages.groups.groups import digits, members_of
from kafscale.console.pages.topics.topics import check_typed


async def plan_reset(call: ApiCall) -> ResetPlan:
    """Say where each partition would go. Changes nothing."""
    services, wanted, group = call.services, call.body, call.query.id
    planned = await services.cluster.ask(_plan, group, wanted, services.clock.now_ms())
    ends = await services.cluster.ask(groups.list_ends, [row[:2] for row in planned])
    try:
        facts = await services.cluster.ask(groups.describe_group, group)
        members = members_of(facts)
    except groups.NoSuchGroup:
        members = []  # it will be there once offsets are committed for it
    name = _name(services, group, planned)
    services.plans.keep(name, group, planned)
    return ResetPlan(plan=name, rows=[_row(row, ends) for row in planned], members=members)


def _row(row: PlannedOffset, ends: dict[PartitionName, int]) -> PlanRow:
    end = ends.get((row.topic, row.partition))
    return PlanRow(
        topic=row.topic,
        partition=row.partition,
        committed=digits(row.committed),
        new=str(row.new),
        lag=None if end is None else max(end - row.new, 0),
    )


def _name(services: Services, group: str, planned: Sequence[PlannedOffset]) -> str:
    return services.sign(group, *(f"{row}" for row in planned))


async def reset_offsets(call: ApiCall) -> None:
    """Carry out a plan, if the group has committed nothing since and it has no members."""
    services, group = call.services, call.query.id
    body: ResetExecution = call.body
    check_typed(Confirmation(confirm=body.confirm), group)
    planned = services.plans.find(body.plan, group)
    if planned is None:
        raise ApiRefusal("plan_outdated", "the plan is not known any more; make a new one")
    try:
        await services.cluster.ask(groups.require_idle, group)
    except AdminError as bad:
        if bad.code is not None:
            raise
        facts = await services.cluster.ask(groups.describe_group, group)
        names = ", ".join(f"{one.client} at {one.host}" for one in facts.members[:5])
        raise ApiRefusal("not_empty", f"{bad}: {names}") from bad
    committed = await services.cluster.ask(groups.list_committed, group)
    if any(committed.get((row.topic, row.partition)) != row.committed for row in planned):
        raise ApiRefusal("plan_outdated", "the group has committed since; make a new plan")
    await services.cluster.ask(group_resets.commit_reset, group, planned)


def _plan(admin: KafkaAdmin, group: str, wanted: ResetRequest, now_ms: int) -> list[PlannedOffset]:
    """Work out a plan, whether members are there or not."""
    partitions = None
    if wanted.topic is not None:
        partitions = {wanted.topic: wanted.partitions}
    if wanted.to == "group":
        return _of_another(admin, group, wanted)
    if wanted.offsets is not None:
        return _by_partition(admin, group, wanted)
    number = int(wanted.value) if wanted.value is not None else None
    if wanted.to in ("time", "age", "shift", "offset") and number is None:
        raise ApiRefusal("invalid", f"{wanted.to} needs a value", field="value")
    match wanted.to:
        case "age":
            target = ResetTarget("time", now_ms - (number or 0))
        case "earliest" | "latest":
            target = ResetTarget(wanted.to)
        case "time" | "shift" | "offset":
            target = ResetTarget(wanted.to, number or 0)
    return group_resets.plan_reset(admin, group, target, partitions, needs_idle=False)


def _by_partition(admin: KafkaAdmin, group: str, wanted: ResetRequest) -> list[PlannedOffset]:
    """Each partition its own offset, within what it has."""
    if wanted.topic is None or wanted.offsets is None:
        raise ApiRefusal("invalid", "offsets by partition need a topic", field="topic")
    planned: list[PlannedOffset] = []
    for text, offset in sorted(wanted.offsets.items()):
        if not text.isdecimal():
            raise ApiRefusal("invalid", f"no partition {text!r}", field="offsets")
        target = ResetTarget("offset", int(offset))
        places = {wanted.topic: [int(text)]}
        planned += group_resets.plan_reset(admin, group, target, places, needs_idle=False)
    return sorted(planned)


def _of_another(admin: KafkaAdmin, group: str, wanted: ResetRequest) -> list[PlannedOffset]:
    """What another group has committed."""
    if not wanted.group:
        raise ApiRefusal("invalid", "name the group whose offsets to take", field="group")
    theirs = groups.list_committed(admin, wanted.group)
    mine = groups.list_committed(admin, group)
    chosen = {
        key: offset
        for key, offset in theirs.items()
        if (wanted.topic is None or key[0] == wanted.topic)
        and (wanted.partitions is None or key[1] in wanted.partitions)
    }
    if not chosen:
        raise ApiRefusal("refused", f"{wanted.group} has committed nothing there")
    return [PlannedOffset(*key, mine.get(key), chosen[key]) for key in sorted(chosen)]


HANDLERS: Final[Handlers] = {"plan_reset": plan_reset, "reset_offsets": reset_offsets}

"""Partitions of a topic: who leads them, where they lie, what they hold.

Next door: places in the bucket (admin/bucket/holdings.py), offsets (admin/brokers/topics.py).
"""

from typing import Final

from kafscale.admin.brokers import topics as questions
from kafscale.admin.brokers.topics import PartitionFacts
from kafscale.admin.bucket.holdings import Holding, list_holdings
from kafscale.console.answers.shapes import PartitionList, PartitionRow, Unknown
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.lists import part_of
from kafscale.model.errors import KafscaleError

_NOWHERE: Final = Holding(None, None)


async def list_partitions(call: ApiCall) -> PartitionList:
    """Give a part of a topic's partitions."""
    services = call.services
    described = await services.cluster.ask(questions.describe_topic, call.topic)
    holdings, why = await _holdings(services, call.topic)
    rows = [_row(one, holdings.get(one.partition, _NOWHERE)) for one in described.partitions]
    unknown: Unknown = dict.fromkeys(("log", "lane", "objects", "bytes"), why) if why else {}
    part = part_of(rows, call.query, lambda row: str(row.partition), sort="partition")
    return PartitionList(
        items=part.items,
        after=part.after,
        total=part.total,
        as_of_ms=services.clock.now_ms(),
        unknown=unknown,
    )


def _row(one: PartitionFacts, holding: Holding) -> PartitionRow:
    return PartitionRow(
        partition=one.partition,
        leader=one.leader,
        log=None if holding.log is None else str(holding.log),
        lane=holding.lane,
        earliest=str(one.earliest),
        latest=str(one.latest),
        records=one.latest - one.earliest,
        objects=holding.objects,
        bytes=holding.bytes,
    )


async def _holdings(services: Services, topic: str) -> tuple[dict[int, Holding], str]:
    bucket = services.bucket
    if bucket is None:
        return {}, services.no_bucket
    try:
        descriptor = await bucket.topic(topic)
        found = await bucket.remembered.get(
            ("holdings", topic), lambda: list_holdings(bucket.store, descriptor)
        )
    except KafscaleError as bad:
        return {}, f"the bucket: {bad}"
    return found, ""


HANDLERS: Final[Handlers] = {"list_partitions": list_partitions}

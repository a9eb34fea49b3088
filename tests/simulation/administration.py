"""Simulated administrators: they create and move topics, and delete some beside those that stay.

In this room: asking until a broker has done it; topics that move from one layout to another; a
neighbour in the shared logs. Each life of its name must hold what was written in it, nothing else.
Next door: the topics that stay (places.py), the clients that write there (producers.py).
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import (
    create_topics,
    delete_topics,
    incremental_alter_configs,
    metadata,
)
from tests.faults.history import Found, History, Trouble
from tests.simulation.cluster import Cluster, Unanswered
from tests.simulation.places import SHARED, Place, Plan
from tests.simulation.producers import Producer
from tests.simulation.readers import read_place

_PAUSE_S = 0.3
_STAYS_S = 3.0
_RECORDS = 8
_TOPIC = 2
SOON: Final = {"retention.ms": "1000"}
OWN: Final = {"storage.placement": "dedicated", "physical.partitions": "-1"}
LAYOUTS: Final = (OWN, {**OWN, "physical.partitions": "1"}, SHARED)
_OF_A_LIFE: Final = (SHARED, {}, {"physical.partitions": "1"})


async def create(cluster: Cluster, plan: Plan) -> None:
    """Ask until the topic is there."""
    topic = create_topics.CreatableTopic(
        name=plan.topic,
        num_partitions=plan.partitions,
        replication_factor=1,
        configs=[
            create_topics.CreatableTopicConfig(name=name, value=value)
            for name, value in plan.configs.items()
        ],
    )
    while True:
        try:
            connection = await cluster.any()
            told = await connection.ask(create_topics.CreateTopicsRequest(topics=[topic]))
            code = ErrorCode(told.topics[0].error_code)
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
        except Unanswered:
            cluster.hang_up()
        await asyncio.sleep(_PAUSE_S)


async def be_known(cluster: Cluster, plan: Plan) -> None:
    """Wait until every broker knows the topic: brokers without a fleet do not tell each other."""
    asked = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=plan.topic)], allow_auto_topic_creation=False
    )
    for address in cluster.bootstrap:
        while True:
            try:
                told = await (await cluster.to(address)).ask(asked)
                if told.topics[0].error_code == ErrorCode.NONE:
                    break
            except Unanswered:
                cluster.hang_up()
            await asyncio.sleep(_PAUSE_S)


async def delete(cluster: Cluster, topic: str) -> bool:
    """Ask until the topic is gone; gives whether the first answer said so: none can come late."""
    at_once = True
    while True:
        try:
            connection = await cluster.any()
            request = delete_topics.DeleteTopicsRequest(topic_names=[topic])
            told = await connection.ask(request)
            code = ErrorCode(told.responses[0].error_code)
            if code is ErrorCode.NONE:
                return at_once
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
        except Unanswered:
            cluster.hang_up()
        at_once = False
        await asyncio.sleep(_PAUSE_S)


class Mover:
    """Lets topics move from one layout to another, again and again."""

    def __init__(self, cluster: Cluster, plans: Sequence[Plan], history: History) -> None:
        self._cluster = cluster
        self._topics = [plan.topic for plan in plans]
        self._history = history

    async def run(self) -> None:
        """Until it is cancelled; topics that are on their way turn back, or elsewhere."""
        dice = self._cluster.dice
        while True:
            await asyncio.sleep(dice.random() * _STAYS_S)
            request = _alteration(dice.choice(self._topics), dice.choice(LAYOUTS))
            try:
                self._history.moves += 1  # at most: the broker may refuse
                await (await self._cluster.any()).ask(request)
            except Unanswered:
                self._cluster.hang_up()


def _alteration(
    topic: str, settings: dict[str, str]
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    rows = [
        incremental_alter_configs.AlterableConfig(name=name, value=value)
        for name, value in settings.items()
    ]
    asked = incremental_alter_configs.AlterConfigsResource(
        resource_type=_TOPIC, resource_name=topic, configs=rows
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[asked])


class Neighbour:
    """A topic that is created, written, read, deleted, and created again under the same name.

    In some lives it lies beside others in the shared logs. The administrator does not wait
    until all brokers have heard of a change: what is acknowledged after a topic was created is in
    that topic.
    """

    def __init__(self, cluster: Cluster, history: History, *, strict: bool) -> None:
        """`strict`: brokers know of each other, and so of what one of them did."""
        self._cluster = cluster
        self._history = history
        self._strict = strict
        self._names = 0
        self._lives = 0

    async def run(self) -> None:
        """Life after life; every second one expires all the time."""
        while True:
            expires = self._lives % 2 == 1
            topic = f"{self._cluster.name}-{self._names}"
            configs = self._cluster.dice.choice(_OF_A_LIFE) | (SOON if expires else {})
            await create(self._cluster, Plan(topic, 1, configs))
            place = Place(self._lives, topic, 0)
            written = await self._write(place)
            await self._stay()
            if not expires and self._strict:
                self._judge(topic, written, await read_place(self._cluster, place))
            self._history.lives += 1
            self._lives += 1
            if not await delete(self._cluster, topic) or not self._strict:
                self._names += 1

    async def _stay(self) -> None:
        stays_s = self._cluster.dice.choice((_STAYS_S, _STAYS_S / 10))
        await asyncio.sleep(self._cluster.dice.random() * stays_s)

    async def _write(self, place: Place) -> list[str]:
        """Some records, until all are acknowledged; numbered ones are there once."""
        noted = History(1)
        numbered = self._cluster.dice.random() < 0.5
        producer = Producer(self._cluster, noted, idempotent=numbered, strict=self._strict)
        await producer.run([place], _RECORDS, 0.1)
        self._history.troubles += noted.troubles
        return [one.value for one in noted.sends]

    def _judge(self, topic: str, written: list[str], found: list[Found]) -> None:
        values = {row.value: row.offset for row in found}
        for value in written:
            if value not in values:
                self._trouble(f"{topic}: {value!r} was acknowledged and is not there")
        for value, offset in values.items():
            if value not in written:
                self._trouble(f"{topic}: {offset} holds {value!r}, which was not written there")

    def _trouble(self, what: str) -> None:
        now_s = asyncio.get_running_loop().time()
        self._history.troubles.append(Trouble(self._cluster.name, what, now_s))

"""The control loop of topics: all changed topics of one cluster at a time.

Here: which topics are looked at, asking the brokers, and what is told about each topic.
Next door: the comparison (planning/topics.py), asking brokers (admin/brokers).
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from kafscale.admin.brokers import configs, topic_states, topics
from kafscale.admin.brokers.client import KafkaAdmin
from kafscale.admin.errors import AdminError
from kafscale.model.clock import Clock
from kafscale.operator.brokers.clients import BrokerClients
from kafscale.operator.kinds.topic import KafscaleTopic, PartitionStatus, TopicObjectStatus
from kafscale.operator.kube.client import Kube
from kafscale.operator.kube.informer import Informer, Key
from kafscale.operator.loops.events import Events
from kafscale.operator.loops.object_writer import ObjectWriter, cluster_trouble, phase_of, wake
from kafscale.operator.loops.observation import Observation, objects_of
from kafscale.operator.planning.idleness import has_news, is_asleep, stays_told
from kafscale.operator.planning.refusals import is_passing, judge_refusal
from kafscale.operator.planning.topics import (
    FINALIZER,
    DescribedTopic,
    TopicPlan,
    plan_topic,
    refuse,
)

KIND: Final = "KafscaleTopic"
DRIFT_S: Final = 300.0  # between two looks at topics that do not change
_SOON_S: Final = 5.0
_MOST_SHOWN: Final = 100  # partitions in a status
_FINAL: Final = ("PartitionsCannotShrink", "ConfigRefused", "DeletionRefused", "Duplicate")


class TopicLoop:
    """Looks at the topics of one cluster at a time."""

    def __init__(
        self,
        kube: Kube,
        informer: Informer,
        observation: Observation,
        clock: Clock,
        events: Events,
        clients: BrokerClients,
        topic_counts: dict[Key, int],
    ) -> None:
        self._kube = kube
        self._informer = informer
        self._observation = observation
        self._writer = ObjectWriter(kube, KIND, clock, events)
        self._clients = clients
        self._topic_counts = topic_counts

    async def look(self, key: Key) -> float | None:
        """Look at all topics of a cluster; gives after how many seconds to look again."""
        _, name = key
        wanted = objects_of(self._informer, KafscaleTopic, key)
        cluster = self._observation.cluster(key)
        if not wanted and cluster is None:
            return None
        is_going = cluster is None or cluster.metadata.deletion_timestamp is not None
        wanted = await self._let_go(wanted, is_going=is_going)
        if cluster is not None and not is_going and is_asleep(cluster):
            if not any(map(has_news, wanted)):
                return None  # topics are as they were told to be, and stay so
            await wake(self._kube, cluster)
        trouble = cluster_trouble(cluster, name)
        if trouble is not None or cluster is None:
            for topic in wanted:
                if not stays_told(cluster, topic):
                    await self._tell(topic, refuse(*(trouble or ("", ""))), None)
            return None if is_going else _SOON_S
        if not wanted and cluster.spec.brokers.idle_after is not None:
            return None  # asking brokers would keep them awake
        async with self._clients.connect(cluster) as admin:
            is_done = await self._ask(key, admin, wanted)
        return DRIFT_S if is_done else _SOON_S

    async def _ask(self, key: Key, admin: KafkaAdmin, wanted: list[KafscaleTopic]) -> bool:
        """Have brokers change what differs; False if some of it has to be asked again soon."""
        firsts, others = _by_age(wanted)
        names = [topic.topic for topic in firsts]
        self._topic_counts[key] = len(await asyncio.to_thread(topics.list_topics, admin))
        found = await asyncio.to_thread(topic_states.describe_states, admin, names)
        is_done = True
        for topic in firsts:
            state = found.get(topic.topic)
            described = None if state is None else DescribedTopic(*state)
            is_done &= await self._reconcile(admin, topic, described)
        for topic, older in others:
            words = f"{older} describes topic {topic.topic} already"
            await self._tell(topic, refuse("Duplicate", words), None)
        return is_done

    async def _reconcile(
        self, admin: KafkaAdmin, topic: KafscaleTopic, found: DescribedTopic | None
    ) -> bool:
        """Have brokers change one topic; False if that has to be asked again soon."""
        if topic.metadata.deletion_timestamp is not None:
            return await self._delete(admin, topic, found)
        await self._writer.finalize(
            topic.metadata, FINALIZER, wanted=topic.spec.deletion_policy == "Delete"
        )
        planned = plan_topic(topic, found)
        if planned.asks:
            try:
                await asyncio.to_thread(_change, admin, topic.topic, planned)
            except AdminError as refused:
                planned = TopicPlan(
                    finding=judge_refusal("ConfigRefused", str(refused), refused.code)
                )
            else:
                state = await asyncio.to_thread(topic_states.describe_states, admin, [topic.topic])
                found = DescribedTopic(*state[topic.topic]) if topic.topic in state else found
        for reason, words in planned.told:
            await self._writer.event(topic.metadata, reason, words)
        await self._tell(topic, planned, found)
        return not is_passing(planned.finding)

    async def _delete(
        self, admin: KafkaAdmin, topic: KafscaleTopic, found: DescribedTopic | None
    ) -> bool:
        if found is not None:
            try:
                await asyncio.to_thread(topics.delete_topics, admin, [topic.topic])
            except AdminError as refused:
                finding = judge_refusal("DeletionRefused", str(refused), refused.code)
                await self._tell(topic, TopicPlan(finding=finding), found)
                return not is_passing(finding)
        await self._writer.finalize(topic.metadata, FINALIZER, wanted=False)
        return True

    # -- going -------------------------------------------------------------------------------

    async def _let_go(self, wanted: list[KafscaleTopic], *, is_going: bool) -> list[KafscaleTopic]:
        """Give the topics that stay. With their cluster gone, those to be deleted go at once."""
        if not is_going:
            return wanted
        for topic in wanted:
            if topic.metadata.deletion_timestamp is not None and topic.metadata.finalizers:
                words = (
                    f"the cluster is gone: topic {topic.topic} and its records stay in the bucket"
                )
                await self._writer.event(topic.metadata, "Orphaned", words, is_bad=True)
                await self._writer.finalize(topic.metadata, FINALIZER, wanted=False)
        return [topic for topic in wanted if topic.metadata.deletion_timestamp is None]

    # -- telling -----------------------------------------------------------------------------

    async def _tell(
        self, topic: KafscaleTopic, planned: TopicPlan, found: DescribedTopic | None
    ) -> None:
        before = topic.status
        finding = planned.finding
        conditions = self._writer.judged(topic.metadata, before.conditions, finding)
        status = TopicObjectStatus(
            phase=phase_of(finding, _FINAL),
            topic_id=found.topic_id if found else before.topic_id,
            observed_generation=topic.metadata.generation,
            partitions=_partitions(found) if found else before.partitions,
            conditions=conditions,
        )
        if status != before:
            await self._writer.status(topic.metadata, before.conditions, status, conditions)


def _by_age(
    wanted: Iterable[KafscaleTopic],
) -> tuple[list[KafscaleTopic], list[tuple[KafscaleTopic, str]]]:
    """Give the oldest object of each topic, and the others with the name of the older one."""
    oldest: dict[str, KafscaleTopic] = {}
    others = []
    for topic in sorted(
        wanted, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name)
    ):
        first = oldest.setdefault(topic.topic, topic)
        if first is not topic:
            others.append((topic, first.metadata.name))
    return list(oldest.values()), others


def _change(admin: KafkaAdmin, name: str, planned: TopicPlan) -> None:
    """Ask brokers for what a plan says. Raises AdminError."""
    if planned.create:
        count = planned.partitions or 1
        topics.create_topics(
            admin, [name], partitions=count, configs=planned.changed, may_exist=False
        )
        return
    if planned.partitions is not None:
        topics.add_partitions(admin, name, planned.partitions)
    if planned.changed or planned.reset:
        configs.alter_configs(admin, name, planned.changed, planned.reset)


def _partitions(found: DescribedTopic) -> list[PartitionStatus]:
    if len(found.leaders) > _MOST_SHOWN:
        return []
    return [PartitionStatus(id=number, leader=leader) for number, leader in found.leaders.items()]

"""A consumer group on the bench: heartbeats with short names, time in the test's hand."""

from kafscale.groups.consumer.assigned import TopicDirectory
from kafscale.groups.consumer.assignors import TopicPartitions
from kafscale.groups.consumer.events import (
    AWAY,
    LEFT,
    Beat,
    Beaten,
    Depart,
    FetchOffsets,
    MemberPartition,
)
from kafscale.groups.consumer.machine import ConsumerGroup
from kafscale.groups.consumer.snapshot import ConsumerSnapshot
from kafscale.groups.events import (
    CommitOffsets,
    Delete,
    Event,
    GroupOutcome,
    Persist,
    Rejected,
    Reply,
    Tick,
)
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import KafscaleError

RULES = GroupRules(most_members=5, consumer_session_s=45.0)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def places(name: str, *numbers: int) -> frozenset[MemberPartition]:
    return frozenset((topic_id(name), number) for number in numbers)


class Directory(TopicDirectory):
    """Topics by name, with their number of partitions."""

    def __init__(self, **counts: int) -> None:
        self._counts = counts
        self._revision = 0

    @property
    def revision(self) -> int:
        return self._revision

    def partitions_of(self, name: str) -> TopicPartitions | None:
        count = self._counts.get(name)
        return None if count is None else TopicPartitions(topic_id(name), count)

    def set(self, name: str, count: int | None) -> None:
        self._revision += 1
        if count is None:
            del self._counts[name]
        else:
            self._counts[name] = count


class Bench:
    """One group, and what each member was told last."""

    def __init__(self, rules: GroupRules = RULES, **topics: int) -> None:
        self.rules = rules
        self.now_s = 100.0
        self.topics = Directory(**topics)
        self.group = ConsumerGroup(rules, self.topics)
        self.saved: ConsumerSnapshot | None = None
        self.epochs: dict[str, int] = {}
        self.told: dict[str, frozenset[MemberPartition]] = {}

    def send(self, event: Event) -> GroupOutcome | None:
        outcome = None
        for effect in self.group.handle(event, self.now_s):
            if isinstance(effect, Persist):
                taken = effect.snapshot.take()
                assert isinstance(taken, ConsumerSnapshot)
                self.saved = taken
            elif isinstance(effect, Reply):
                outcome = effect.outcome
        return outcome

    def join(self, member: str, *names: str, **more: object) -> GroupOutcome | None:
        facts: dict[str, object] = {
            "rebalance_timeout_s": 60.0,
            "names": frozenset(names),
            "owned": frozenset(),
        }
        return self._beat(member, 0, facts | more)

    def beat(self, member: str, **more: object) -> GroupOutcome | None:
        """A heartbeat that says what the member owns: what it was told last."""
        epoch = more.pop("epoch", self.epochs.get(member, 0))
        facts: dict[str, object] = {"owned": self.told.get(member, frozenset())}
        return self._beat(member, epoch, facts | more)

    def _beat(self, member: str, epoch: object, facts: dict[str, object]) -> GroupOutcome | None:
        event = Beat(call=member, member_id=member, epoch=epoch, **facts)  # type: ignore[arg-type]
        outcome = self.send(event)
        if isinstance(outcome, Beaten):
            self.epochs[member] = outcome.epoch
            if outcome.assigned is not None:
                self.told[member] = outcome.assigned
        return outcome

    def leave(self, member: str) -> GroupOutcome | None:
        self.told.pop(member, None)
        return self.send(Depart(call=member, member_id=member, epoch=LEFT))

    def go_away(self, member: str, instance_id: str) -> GroupOutcome | None:
        self.told.pop(member, None)
        event = Depart(call=member, member_id=member, epoch=AWAY, instance_id=instance_id)
        return self.send(event)

    def commit(self, member: str, epoch: int) -> GroupOutcome | None:
        return self.send(CommitOffsets(call=member, generation=epoch, member_id=member))

    def fetch(self, member: str, epoch: int) -> GroupOutcome | None:
        return self.send(FetchOffsets(call=member, member_id=member, epoch=epoch))

    def delete(self) -> GroupOutcome | None:
        return self.send(Delete(call="admin"))

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.send(Tick())

    def restart(self) -> None:
        """Another broker goes on with what was saved."""
        assert self.saved is not None
        self.group = ConsumerGroup.restored(self.rules, self.topics, self.saved, self.now_s)

    def settle(self, *members: str) -> None:
        """Heartbeats in turn until no member hears anything new."""
        for _ in range(10):
            before = (dict(self.epochs), dict(self.told))
            for member in members:
                self.beat(member)
            if before == (self.epochs, self.told):
                return
        raise AssertionError("the members do not come to rest")


def problem_of(outcome: GroupOutcome | None) -> type[KafscaleError]:
    assert isinstance(outcome, Rejected)
    return type(outcome.problem)

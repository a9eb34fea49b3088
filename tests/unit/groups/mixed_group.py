"""A group whose members speak both protocols, on the bench: requests with short names."""

import itertools
import struct
from collections.abc import Iterable

from kafscale.engine.coordinator.group_configs import GroupConfigs
from kafscale.engine.coordinator.group_machines import GroupMachines
from kafscale.gateways.kafka.groups.consumer_protocol import ConsumerProtocol
from kafscale.groups.classic.events import Heartbeat, Join, Leave, Sync
from kafscale.groups.classic.snapshot import GroupSnapshot
from kafscale.groups.consumer.events import LEFT, Beat, Depart, MemberPartition
from kafscale.groups.consumer.snapshot import ConsumerSnapshot
from kafscale.groups.events import (
    CommitOffsets,
    Event,
    GroupOutcome,
    Persist,
    Rejected,
    Reply,
    Tick,
)
from kafscale.groups.rules import GroupRules
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from tests.unit.groups.consumer.bench import Directory

RULES = GroupRules(initial_delay_s=0.0, most_members=6)
TOPIC = "orders"
codec = ConsumerProtocol()


def subscription(owned: Iterable[int] = (), version: int = 1) -> bytes:
    """What a consumer of the topic says when it joins, while it reads some partitions."""
    numbers = sorted(owned)
    head = struct.pack(">hih6si", version, 1, len(TOPIC), TOPIC.encode(), -1)
    if not version:
        return head
    rows = struct.pack(f">ih6si{len(numbers)}i", 1, 6, TOPIC.encode(), len(numbers), *numbers)
    return head + (rows if numbers else struct.pack(">i", 0))


def numbers_of(assignment: bytes) -> set[int]:
    rows = codec.read_assignment(assignment)
    assert rows is not None
    return {number for _, numbers in rows for number in numbers}


class _Watch(Clock):
    """Time in the test's hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def elapsed_s(self) -> float:
        return self.now_s


class MixedBench:
    """One group, as the shell treats it, and the outcome of every call."""

    def __init__(self, partitions: int = 4, rules: GroupRules = RULES) -> None:
        self.clock = _Watch()
        self.topics = Directory(**{TOPIC: partitions})
        configs = GroupConfigs(None)  # type: ignore[arg-type]  # no group has settings
        self.machines = GroupMachines(rules, self.topics, codec, configs, self.clock)
        self.machine = self.machines.new()
        self.saved: GroupSnapshot | ConsumerSnapshot | None = None
        self.outcomes: dict[int, GroupOutcome] = {}
        self._calls = itertools.count()

    @property
    def group_type(self) -> str:
        return self.machine.group_type

    def send(self, event: Event) -> None:
        before = self.machine
        self.machine = self.machines.suited("g", before, event)
        self._handle(event, before)

    def _handle(self, event: Event, before: object = None) -> None:
        for effect in self.machine.handle(event, self.clock.now_s):
            if isinstance(effect, Persist):
                taken = effect.snapshot.take()
                assert isinstance(taken, GroupSnapshot | ConsumerSnapshot)
                self.saved = taken
            elif isinstance(effect, Reply):
                assert isinstance(effect.call, int)
                self.outcomes[effect.call] = effect.outcome
        self.machine = self.machines.settled(self.machine, before)  # type: ignore[arg-type]

    def ask(self, kind: type, **fields: object) -> int:
        call = next(self._calls)
        try:
            self.send(kind(call=call, **fields))
        except KafscaleError as problem:
            self.outcomes[call] = Rejected(problem)
        return call

    def outcome(self, call: int) -> GroupOutcome | None:
        return self.outcomes.get(call)

    def pass_time(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self._handle(Tick())

    def restart(self) -> None:
        """Another broker goes on with what was saved; calls that wait are lost."""
        self.machine = (
            self.machines.new() if self.saved is None else self.machines.restored("g", self.saved)
        )

    # -- members ---------------------------------------------------------------------------------

    def join(self, member: str = "", protocol: str = "range", **more: object) -> int:
        facts: dict[str, object] = {
            "member_id": member,
            "fresh_id": f"id-{next(self._calls)}",
            "session_timeout_s": 10.0,
            "rebalance_timeout_s": 60.0,
            "protocol_type": "consumer",
            "protocols": {protocol: subscription()},
        }
        return self.ask(Join, **facts | more)

    def sync(self, member: str, generation: int, **more: object) -> int:
        return self.ask(Sync, member_id=member, generation=generation, **more)

    def heartbeat(self, member: str, generation: int, **more: object) -> GroupOutcome | None:
        return self.outcome(self.ask_heartbeat(member, generation, **more))

    def ask_heartbeat(self, member: str, generation: int, **more: object) -> int:
        return self.ask(Heartbeat, member_id=member, generation=generation, **more)

    def commit(self, member: str, generation: int) -> GroupOutcome | None:
        return self.outcome(self.ask(CommitOffsets, member_id=member, generation=generation))

    def leave(self, member: str) -> GroupOutcome | None:
        return self.outcome(self.ask(Leave, leavers=((member, None),)))

    def beat(
        self,
        member: str,
        epoch: int = 0,
        owned: frozenset[MemberPartition] = frozenset(),
        **more: object,
    ) -> GroupOutcome | None:
        facts = {"rebalance_timeout_s": 60.0, "names": frozenset({TOPIC}), "owned": owned}
        call = self.ask(Beat, member_id=member, epoch=epoch, **facts | more)
        return self.outcome(call)

    def depart(self, member: str) -> GroupOutcome | None:
        return self.outcome(self.ask(Depart, member_id=member, epoch=LEFT))

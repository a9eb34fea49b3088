"""A group on the bench: events with short names, time in the test's hand, answers by call."""

from typing import Any

from kafscale.groups.classic.events import Heartbeat, Join, Leave, Sync
from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.classic.snapshot import GroupSnapshot
from kafscale.groups.events import CommitOffsets, Event, GroupOutcome, Persist, Reply, Tick, WakeAt
from kafscale.groups.rules import GroupRules

RULES = GroupRules(initial_delay_s=0.0, most_members=5, most_metadata_bytes=1000)
RANGE = {"range": b"sub"}


class Bench:
    """One group. Calls are numbers; `answers` has what they got."""

    def __init__(self, rules: GroupRules = RULES) -> None:
        self.rules = rules
        self.now_s = 100.0
        self.group = ClassicGroup(rules)
        self.answers: dict[int, GroupOutcome] = {}
        self.saved: list[GroupSnapshot] = []
        self.wake_s: float | None = None
        self._calls = 0

    def handle(self, event: Event) -> None:
        for effect in self.group.handle(event, self.now_s):
            if isinstance(effect, Reply):
                assert isinstance(effect.call, int)
                assert effect.call not in self.answers, "answered twice"
                self.answers[effect.call] = effect.outcome
            elif isinstance(effect, Persist):
                self.saved.append(effect.snapshot)
            else:
                assert isinstance(effect, WakeAt)
                self.wake_s = effect.at_s

    def new_call(self) -> int:
        self._calls += 1
        return self._calls

    def join(self, member_id: str = "", **fields: Any) -> int:
        call = self.new_call()
        given = {
            "session_timeout_s": 10.0,
            "rebalance_timeout_s": 60.0,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "fresh_id": f"m{call}",
            **fields,
        }
        self.handle(Join(call=call, member_id=member_id, **given))
        return call

    def sync(self, member_id: str, generation: int, **fields: Any) -> int:
        call = self.new_call()
        self.handle(Sync(call=call, member_id=member_id, generation=generation, **fields))
        return call

    def heartbeat(self, member_id: str, generation: int, **fields: Any) -> int:
        call = self.new_call()
        self.handle(Heartbeat(call=call, member_id=member_id, generation=generation, **fields))
        return call

    def commit(self, member_id: str, generation: int, **fields: Any) -> int:
        call = self.new_call()
        self.handle(CommitOffsets(call=call, member_id=member_id, generation=generation, **fields))
        return call

    def leave(self, *leavers: tuple[str, str | None]) -> int:
        call = self.new_call()
        self.handle(Leave(call=call, leavers=leavers))
        return call

    def pass_s(self, seconds: float) -> None:
        """Let time pass, with a tick whenever one is due."""
        until_s = self.now_s + seconds
        while (due_s := self.group.next_wake_s()) <= until_s:
            self.now_s = max(self.now_s, due_s)
            self.handle(Tick())
        self.now_s = until_s
        self.handle(Tick())

    def outcome(self, call: int) -> Any:
        return self.answers[call]

    def problem(self, call: int) -> type[Exception]:
        return type(self.outcome(call).problem)

    def stable(self, count: int = 1, **fields: Any) -> list[str]:
        """A stable group of this many members; the first one leads."""
        first = self.join(**fields)
        self.sync(f"m{first}", self.group.generation)
        names = [f"m{first}", *(f"m{self.join(**fields)}" for _ in range(count - 1))]
        if count > 1:
            self.join(names[0], **fields)
            for name in reversed(names):
                self.sync(name, self.group.generation)
        return names

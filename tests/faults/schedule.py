"""A seed becomes a list of faults: what, to which target, when, for how long.

In this room: the names of the faults there are, and the dice. Pure.
Next door: carrying them out (nemesis.py).

Brokers do not talk to each other, so there is no wire between them to cut; what can be cut is a
broker from etcd, from the bucket, and clients from a broker.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LEASE_S: Final = 6.0  # of the brokers in these runs

# Name, what it does, shortest and longest time in seconds.
FAULTS: Final[dict[str, tuple[str, float, float]]] = {
    "kill": ("SIGKILL for one broker", 0.2, 4.0),
    "kill-all": ("SIGKILL for all brokers at once", 0.2, 2.0),
    "restart": ("SIGTERM for one broker", 0.1, 1.0),
    "pause": ("SIGSTOP for one broker, longer than its lease", 1.3 * LEASE_S, 2.0 * LEASE_S),
    "pause-short": ("SIGSTOP for one broker, shorter than its lease", 0.5, 0.5 * LEASE_S),
    "etcd-kill": ("SIGKILL for all of etcd", 1.0, 1.5 * LEASE_S),
    "etcd-pause": ("SIGSTOP for all of etcd", 1.0, 1.5 * LEASE_S),
    "etcd-kill-one": ("SIGKILL for one member of etcd", 2.0, 6.0),
    "etcd-pause-one": ("SIGSTOP for one member of etcd", 2.0, 6.0),
    "cut-etcd": ("one broker cut from etcd", 2.0, 2.0 * LEASE_S),
    "cut-s3": ("one broker cut from the bucket", 2.0, 2.0 * LEASE_S),
    "cut-clients": ("clients cut from one broker", 2.0, 10.0),
    "s3-down": ("the bucket refuses connections", 2.0, 8.0),
    "s3-hang": ("the bucket answers nothing", 2.0, 8.0),
    "s3-slow": ("every request to the bucket takes 1 s more", 4.0, 8.0),
    "s3-errors": ("30 % of requests to the bucket answer 500", 4.0, 8.0),
    "s3-throttle": ("50 % of requests to the bucket answer 503 SlowDown", 4.0, 8.0),
    "s3-lost": ("30 % of requests are executed and not answered", 4.0, 8.0),
    "s3-late": ("20 % of PUTs hang up and are executed 4 s later", 4.0, 8.0),
}
# Aimed at one broker, at one member of etcd; all others concern the whole cluster.
AT_A_BROKER: Final = {
    *("kill", "restart", "pause", "pause-short", "cut-etcd", "cut-s3", "cut-clients"),
}
AT_A_MEMBER: Final = {"etcd-kill-one", "etcd-pause-one"}
# Faults that need more than one target: with one alone they would be another fault.
NEEDS_MEMBERS: Final = AT_A_MEMBER

FIRST_S: Final = 4.0  # of peace, so that there is something to disturb
PEACE_S: Final = (2.0, 6.0)  # between two steps
TOGETHER: Final = 4  # of so many steps one has two faults at once


@dataclass(frozen=True, slots=True)
class Step:
    """One fault: the target counts brokers or members of etcd, 0 where it concerns all."""

    name: str
    target: int
    begins_s: float
    lasts_s: float

    @property
    def ends_s(self) -> float:
        return self.begins_s + self.lasts_s

    def __str__(self) -> str:
        aim = f" of {self.target}" if self.name in AT_A_BROKER | AT_A_MEMBER else ""
        return f"{self.begins_s:7.1f} s  {self.name}{aim} for {self.lasts_s:.1f} s"


def possible(etcd_members: int) -> list[str]:
    """The faults this cluster can suffer."""
    return [name for name in FAULTS if etcd_members > 1 or name not in NEEDS_MEMBERS]


def plan(
    seed: int, seconds: float, names: Sequence[str], brokers: int, etcd_members: int
) -> list[Step]:
    """Rounds through all the names, each round in another order, until the time is used up.

    A step that would end later is left out; at least one is there.
    """
    dice = random.Random(seed)
    steps: list[Step] = []
    at_s, waiting = FIRST_S, list[str]()
    while True:
        chosen: list[str] = []
        for _ in range(2 if len(steps) % TOGETHER == TOGETHER - 1 and len(names) > 1 else 1):
            if not waiting:
                waiting = dice.sample(list(names), len(names))
            if not any(_clash(waiting[-1], other) for other in chosen):
                chosen.append(waiting.pop())
        together = [
            _step(dice, name, at_s, brokers, etcd_members) for name in dict.fromkeys(chosen)
        ]
        ends_s = max(step.ends_s for step in together)
        if steps and ends_s > seconds:
            return steps
        steps += together
        at_s = ends_s + dice.uniform(*PEACE_S)


def _clash(one: str, two: str) -> bool:
    """A member of etcd cannot start while the others are away, and nothing is done twice."""
    return one == two or (one.startswith("etcd-") and two.startswith("etcd-"))


def _step(dice: random.Random, name: str, at_s: float, brokers: int, members: int) -> Step:
    _, shortest_s, longest_s = FAULTS[name]
    target = dice.randrange(members if name in AT_A_MEMBER else brokers)
    if name not in AT_A_BROKER | AT_A_MEMBER:
        target = 0
    return Step(name, target, round(at_s, 2), round(dice.uniform(shortest_s, longest_s), 2))

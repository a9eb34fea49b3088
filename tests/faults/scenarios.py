"""The bars, each a scenario of its own: what is done, the figures, whether it passed.

Next door: how a run is held (run.py), crowds of connections (crowd.py).
The same attacks in small are in test_short.py.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from benchmarks.meter import rss_mb
from tests.faults import crowd, report
from tests.faults.run import Field, Shape, Verdict, judged
from tests.faults.s3_proxy import POLITE, Manners
from tests.faults.schedule import LEASE_S, Step
from tests.faults.workers import Flood

Say = Callable[[str], None]
# Ten seconds of work may wait in memory, as the settings allow; more would be a leak.
MEMORY_MB: Final = 600.0


@dataclass(slots=True)
class Result:
    """Figures by name, and the bars that were missed."""

    figures: dict[str, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    seed: int = 0

    @property
    def passed(self) -> bool:
        return not self.missed

    def __str__(self) -> str:
        lines = [f"  {name:38} {value}" for name, value in self.figures.items()]
        lines += [f"  MISSED: {bar}" for bar in self.missed] or ["  passed"]
        return "\n".join(lines)

    def bar(self, holds: bool, text: str) -> None:
        if not holds:
            self.missed.append(text)


def _result(verdict: Verdict, seed: int, **figures: str) -> Result:
    counted = {finding.kind for finding in verdict.findings}
    rows = report.rows(verdict.history, verdict.findings)
    result = Result(seed=seed)
    result.figures = {
        "records acknowledged": str(verdict.acknowledged),
        "records in the log": str(len(verdict.history.found)),
        "lost": str(sum(finding.kind == "lost" for finding in verdict.findings)),
        "duplicates": str(sum(finding.kind == "duplicate" for finding in verdict.findings)),
        "objects written": str(len({one.key for one in verdict.history.stored})),
        "objects overwritten": str(sum(f.kind == "overwritten" for f in verdict.findings)),
        "longest silence of a partition": f"{max(row.silence_s for row in rows):.1f} s",
        **{name.replace("_", " "): value for name, value in figures.items()},
        "seed, seconds": f"{seed}, {verdict.seconds:.0f}",
    }
    if counted:
        result.missed.append(report.summary(verdict.findings))
        result.missed.append(f"kept in {verdict.folder}")
    return result


def kills(seed: int, brokers: int, say: Say) -> Result:
    """100,000 acknowledged records, 15 SIGKILLs in 60 s: none lost, none twice, offsets dense."""
    count, seconds, wanted = 15, 60.0, 100_000
    dice = random.Random(seed)
    shape = Shape(
        brokers=brokers,
        etcd_members=1,
        idempotent_writers=3,
        plain_writers=0,
        per_s=1500,
        members=0,
        surveyed=False,
    )

    def act(running: Field) -> None:
        running.wait_for_answers(100)
        began_s = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began_s + number * seconds / count - time.monotonic()))
            target = dice.randrange(brokers)
            step = Step("kill", target, time.monotonic() - began_s, dice.uniform(0.1, 1.0))
            running.nemesis.carry_out([step])
        say(f"  {count} kills in {time.monotonic() - began_s:.0f} s")
        deadline = time.monotonic() + 120
        while running.acknowledged < wanted and time.monotonic() < deadline:
            time.sleep(0.1)

    verdict = judged("kills", shape, seed, act, lambda text: None)
    result = _result(verdict, seed, kills=str(count))
    result.bar(verdict.acknowledged >= wanted, f"{wanted} acknowledged records")
    return result


def all_killed(seed: int, brokers: int, say: Say) -> Result:
    """All brokers killed at once, again and again: nothing acknowledged is lost."""
    times = 5
    dice = random.Random(seed)

    def act(running: Field) -> None:
        for _ in range(times):
            running.wait_for_answers(200)
            time.sleep(dice.uniform(0.0, 0.5))
            running.nemesis.carry_out([Step("kill-all", 0, 0.0, dice.uniform(0.1, 1.0))])
        running.wait_for_answers(200)

    shape = Shape(brokers=brokers, etcd_members=1, members=3)
    verdict = judged("all-killed", shape, seed, act, lambda text: None)
    return _result(verdict, seed, kills=f"{times} x {brokers}")


def zombie(seed: int, brokers: int, say: Say) -> Result:
    """A writer paused past its lease, full of unanswered work: it overwrites nothing."""
    resumed: list[float] = []

    def act(running: Field) -> None:
        for number in range(2 * brokers):
            running.wait_for_answers(100)
            node = running.cluster.nodes[number % brokers]
            # Every second pause is longer than deleted names are kept back.
            lasts_s = LEASE_S * 1.5 if number < brokers else 25.0
            node.broker.pause()
            paused_s = time.monotonic()
            if brokers > 1:
                running.wait_for_partitions()
                resumed.append(time.monotonic() - paused_s)
            time.sleep(max(0.0, paused_s + lasts_s - time.monotonic()))
            node.broker.resume()
        running.wait_for_answers(300)

    shape = Shape(brokers=brokers, etcd_members=1, stubborn=True, members=3)
    verdict = judged("zombie", shape, seed, act, lambda text: None)
    went_on = f"{max(resumed):.1f} s" if resumed else "with the writer itself"
    return _result(verdict, seed, all_partitions_went_on_after=went_on)


def outage(seed: int, brokers: int, say: Say) -> Result:
    """The bucket is down for 30 s, then fails every tenth request: memory stays bounded."""
    down_s, errors_s = 30.0, 20.0
    peak: dict[str, float] = {}
    back: list[float] = []
    pids: list[list[int]] = []

    def act(running: Field) -> None:
        flood = Flood(running.cluster.reach, running.history)
        running.wait_for_answers(100)
        nodes = running.cluster.nodes
        pids.append([node.broker.pid for node in nodes])
        flood.start()
        try:
            for manners, lasts_s in ((Manners(down=True), down_s), (Manners(errors=0.1), errors_s)):
                for node in nodes:
                    node.s3.behave(manners)
                until_s = time.monotonic() + lasts_s
                while time.monotonic() < until_s:
                    for node in nodes:
                        now = rss_mb(node.broker.pid)
                        peak[node.name] = max(peak.get(node.name, 0.0), now)
                    time.sleep(0.2)
                if manners.down:
                    for node in nodes:
                        node.s3.behave(POLITE)
                    healed_s = time.monotonic()
                    running.wait_for_answers(1)
                    back.append(time.monotonic() - healed_s)
            for node in nodes:
                node.s3.behave(POLITE)
        finally:
            flood.stopping.set()
        running.wait_for_answers(100)
        pids.append([node.broker.pid for node in nodes])
        flood.finish()

    shape = Shape(brokers=brokers, etcd_members=1, members=0, per_s=150)
    verdict = judged("outage", shape, seed, act, lambda text: None)
    result = _result(
        verdict,
        seed,
        most_memory_of_a_broker=f"{max(peak.values(), default=0.0):.0f} MB",
        writes_went_on_after=f"{max(back, default=-1.0):.1f} s",
    )
    result.bar(max(peak.values(), default=0.0) < MEMORY_MB, f"memory below {MEMORY_MB:.0f} MB")
    result.bar(len(pids) == 2 and pids[0] == pids[1], "service back without a restart")
    return result


def rolling(seed: int, brokers: int, say: Say) -> Result:
    """Every broker restarted in turn (SIGTERM) under load: no default client sees an error."""
    rounds = 3

    def act(running: Field) -> None:
        for _ in range(rounds):
            for node in running.cluster.nodes:
                running.wait_for_answers(200)
                node.broker.stop()
                running.cluster.start_broker(node)
        running.wait_for_answers(200)

    shape = Shape(brokers=brokers, etcd_members=1, strict=True)
    verdict = judged("rolling", shape, seed, act, lambda text: None)
    seen = sum(finding.kind == "trouble" for finding in verdict.findings)
    return _result(verdict, seed, errors_seen_by_clients=str(seen), restarts=str(rounds * brokers))


def crowded(seed: int, brokers: int, say: Say, idle: int = 10_000, slow: int = 200) -> Result:
    """10,000 idle connections and 200 slow ones: a new client is served within 1 s."""
    result = Result(seed=seed)
    served = crowd.measure(idle, slow)
    result.figures = {
        "idle connections": str(served.idle),
        "slow connections": str(served.slow),
        "raw question answered in": f"{served.question_s * 1000:.0f} ms",
        "new client produced in": f"{served.produced_s * 1000:.0f} ms",
        "memory of the broker": f"{served.memory_mb:.0f} MB",
    }
    result.bar(served.idle >= idle and served.slow >= slow, "all connections stay open")
    result.bar(served.question_s < 1.0 and served.produced_s < 1.0, "served within 1 s")
    return result


ALL: Final[dict[str, Callable[..., Result]]] = {
    "kills": kills,
    "all-killed": all_killed,
    "zombie": zombie,
    "outage": outage,
    "rolling": rolling,
    "crowd": crowded,
}

"""The nemesis carries out faults and heals them.

Next door: which faults and when (schedule.py), the processes and wires it attacks (cluster.py).
"""

import time
from collections.abc import Callable, Sequence

from tests.faults.cluster import Cluster, Node
from tests.faults.history import Fault
from tests.faults.s3_proxy import POLITE, Manners, together
from tests.faults.schedule import AT_A_BROKER, AT_A_MEMBER, Step
from tests.support.program import Program

LATE_S = 4.0
STARTS = {"kill", "kill-all", "restart"}  # end with the start of brokers
MANNERS = {
    "s3-down": Manners(down=True),
    "s3-hang": Manners(hang=True),
    "s3-slow": Manners(slow_s=1.0),
    "s3-errors": Manners(errors=0.3),
    "s3-throttle": Manners(throttled=0.5),
    "s3-lost": Manners(lost_answers=0.3),
    "s3-late": Manners(late=0.2, late_s=LATE_S),
    "cut-s3": Manners(hang=True),
}


class Nemesis:
    """Goes through a plan; notes in the history what it did."""

    def __init__(self, cluster: Cluster, say: Callable[[str], None] = lambda text: None) -> None:
        self._cluster = cluster
        self._say = say
        self._at_s3: set[Step] = set()  # going on now

    def go(self, steps: Sequence[Step], began_s: float) -> None:
        """All steps, at their times; those that begin at one time are healed together."""
        for begins_s in sorted({step.begins_s for step in steps}):
            together = [step for step in steps if step.begins_s == begins_s]
            time.sleep(max(0.0, began_s + begins_s - time.monotonic()))
            self.carry_out(together)

    def carry_out(self, together: Sequence[Step]) -> None:
        begun: dict[Step, float] = {}
        try:
            for step in together:
                self._say(str(step))
                begun[step] = time.monotonic()
                self._begin(step)
            # Wires and servers first: a broker may need them to start.
            for step in sorted(together, key=lambda step: (step.name in STARTS, step.ends_s)):
                time.sleep(max(0.0, begun[step] + step.lasts_s - time.monotonic()))
                self._end(step)
        finally:
            for step, at_s in begun.items():
                self._cluster.history.faults.append(
                    Fault(step.name, self._name(step), at_s, time.monotonic())
                )

    def heal(self) -> None:
        """Undo every fault that goes on."""
        self._at_s3.clear()
        for member in self._cluster.etcd.members:
            _resume(member)
        self._start_etcd()
        for node in self._cluster.nodes:
            _heal_wires(node)
            _resume(node.broker)
        self._cluster.start_brokers()

    def _name(self, step: Step) -> str:
        if step.name in AT_A_BROKER:
            return self._cluster.nodes[step.target].name
        if step.name in AT_A_MEMBER:
            return self._cluster.etcd.members[step.target].name
        return "all"

    def _begin(self, step: Step) -> None:
        cluster, node = self._cluster, self._cluster.nodes[step.target % len(self._cluster.nodes)]
        member = cluster.etcd.members[step.target % len(cluster.etcd.members)]
        match step.name:
            case "kill":
                node.broker.kill()
            case "kill-all":
                cluster.kill_brokers()
            case "restart":
                _resume(node.broker)  # a paused process would never hear of it
                node.broker.stop()
            case "pause" | "pause-short":
                _pause(node.broker)
            case "etcd-kill":
                cluster.etcd.kill()
            case "etcd-pause":
                for one in cluster.etcd.members:
                    _pause(one)
            case "etcd-kill-one":
                member.kill()
            case "etcd-pause-one":
                _pause(member)
            case "cut-etcd":
                for link in node.etcd:
                    link.hold()
            case "cut-clients":
                node.clients.hold()
                node.pulsar.hold()
            case _:
                self._at_s3.add(step)
                self._change_manners()

    def _end(self, step: Step) -> None:
        cluster, node = self._cluster, self._cluster.nodes[step.target % len(self._cluster.nodes)]
        member = cluster.etcd.members[step.target % len(cluster.etcd.members)]
        match step.name:
            case "kill" | "restart":
                cluster.start_broker(node)
            case "kill-all":
                cluster.start_brokers()
            case "pause" | "pause-short":
                _resume(node.broker)
            case "etcd-kill" | "etcd-kill-one":
                self._start_etcd()
            case "etcd-pause":
                for one in cluster.etcd.members:
                    _resume(one)
            case "etcd-pause-one":
                _resume(member)
            case "cut-etcd":
                for link in node.etcd:
                    link.heal()
            case "cut-clients":
                node.clients.heal()
                node.pulsar.heal()
            case _:
                self._at_s3.discard(step)
                self._change_manners()

    def _start_etcd(self) -> None:
        """All members that do not run: one alone, of several that were killed, has no majority."""
        if dead := [member for member in self._cluster.etcd.members if not member.running]:
            self._cluster.etcd.start(*dead)

    def _change_manners(self) -> None:
        """Every broker's door to the bucket, as all that goes on there together wants it."""
        for number, node in enumerate(self._cluster.nodes):
            mine = [
                MANNERS[step.name]
                for step in self._at_s3
                if step.name not in AT_A_BROKER or step.target == number
            ]
            node.s3.behave(together(mine))


def _pause(program: Program) -> None:
    if program.running:
        program.pause()


def _resume(program: Program) -> None:
    if program.running:
        program.resume()


def _heal_wires(node: Node) -> None:
    node.s3.behave(POLITE)
    node.clients.heal()
    node.pulsar.heal()
    for link in node.etcd:
        link.heal()

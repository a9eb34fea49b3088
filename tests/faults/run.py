"""One run from start to verdict: cluster, workers, faults, peace, a last reading, judgement.

Next door: the parts (cluster.py, workers.py, nemesis.py, checker.py), runs with a bar to pass
(scenarios.py).
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults import places, raw, report
from tests.faults.checker import Finding, check
from tests.faults.cluster import NAMESPACE, Cluster
from tests.faults.committed import CommittedReader, read_the_end
from tests.faults.guard import Intruder
from tests.faults.history import History
from tests.faults.members import Auditor, Group, GroupMember, begin_group, wait_for_group
from tests.faults.movers import Mover
from tests.faults.neighbours import PATIENCE_S, Neighbour
from tests.faults.nemesis import Nemesis
from tests.faults.schedule import Step
from tests.faults.transaction_checker import TransactionHistory, check_transactions
from tests.faults.transactors import PARTITIONS, PLACES, TOPICS, Transactor
from tests.faults.workers import QUIET, Follower, Reach, Worker, Writer

FOLDER = Path(__file__).parents[2] / ".cache" / "faults"


@dataclass(frozen=True, slots=True)
class Shape:
    """How big a run is, and which clients take part."""

    brokers: int = 3
    etcd_members: int = 3
    idempotent_writers: int = 2
    plain_writers: int = 1
    per_s: float = 300.0  # records of one writer
    members: int = 3
    surveyed: bool = True
    moving: bool = True  # topics go from one layout to another
    neighbours: int = 1  # of the shared topics: they come and go
    stubborn: bool = True  # clients write to every broker, leader or not
    transactors: int = 0  # clients that make transactions
    strict: bool = False  # clients must not be told of errors at all
    guarded: bool = False  # TLS, logins, access control lists, quotas; and intruders
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class Verdict:
    """The verdict of a run. The folder is there only if there are findings."""

    history: History
    findings: list[Finding]
    folder: Path
    seconds: float
    transactions: TransactionHistory

    @property
    def acknowledged(self) -> int:
        return len(self.history.acknowledged())

    def table(self) -> str:
        return report.table(report.rows(self.history, self.findings))

    def __str__(self) -> str:
        said = [self.table(), report.by_kind(self.history), report.summary(self.findings)]
        if left := self.transactions.left_alone:
            said.append(f"calls in which a client waited for no broker, and was left: {left}")
        if self.findings:
            said.append(f"history, logs and listing: {self.folder}")
        return "\n".join(said)


class Field:
    """A running cluster with workers on it; what scenarios act on."""

    def __init__(self, cluster: Cluster, shape: Shape, say: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.history = cluster.history
        self.nemesis = Nemesis(cluster, say)
        reach, history, seed = cluster.reach, cluster.history, cluster.seed
        kinds = [True] * shape.idempotent_writers + [False] * shape.plain_writers
        self.writers = [
            Writer(
                f"{'idempotent' if idempotent else 'plain'}-{number}",
                reach,
                history,
                idempotent=idempotent,
                per_s=shape.per_s,
                strict=shape.strict,
            )
            for number, idempotent in enumerate(kinds)
        ]
        self.follower = Follower("follower", reach, history)
        self.group = Group()
        self.members = [
            GroupMember(
                f"member-{n}",
                reach,
                history,
                self.group,
                n > 0 and n % 2 == 0,
                seed,
                resets="error",
            )
            for n in range(shape.members)
        ]
        self.neighbours = [
            Neighbour(f"neighbour-{n}", reach, self.ports, history, seed)
            for n in range(shape.neighbours)
        ]
        self.transactions = TransactionHistory()
        self.transactors = [
            Transactor(f"transactor-{n}", reach, history, self.transactions, seed)
            for n in range(shape.transactors)
        ]
        self.auditors: list[Worker] = [Auditor("auditor", reach, history), *self.neighbours]
        if self.transactors:
            self.auditors += [
                CommittedReader(self.ports, PLACES, number, history, self.transactions)
                for number in range(len(PLACES))
            ]
        self.mover = Mover(reach, history, cluster.s3.endpoint, NAMESPACE, seed)
        if shape.moving:
            self.auditors.append(self.mover)
        if cluster.guard is not None:
            self.auditors.append(Intruder(cluster.guard, reach, history))
        for node in cluster.nodes:
            if shape.surveyed:
                self.auditors.append(raw.Surveyor(node.name, node.broker.port, history))
            if shape.stubborn:
                self.auditors.append(raw.Stubborn(node.name, node.broker.port, history))

    @property
    def acknowledged(self) -> int:
        return sum(writer.acknowledged for writer in self.writers)

    @property
    def ports(self) -> list[int]:
        return [node.broker.port for node in self.cluster.nodes]

    def start(self) -> None:
        if self.members:
            begin_group(self.cluster.reach, self.history)
        for worker in self.workers():
            worker.start()

    def workers(self) -> list[Worker]:
        """All of them."""
        others = [self.follower, *self.members, *self.auditors]
        return [*self.writers, *self.transactors, *others]

    def wait_for_answers(self, more: int, within_s: float = 120.0) -> None:
        """Wait until each writer has had this many more acknowledgements."""
        wanted = [writer.acknowledged + more for writer in self.writers]
        deadline = time.monotonic() + within_s
        while any(w.acknowledged < end for w, end in zip(self.writers, wanted, strict=True)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the writers came to a halt at {wanted}")
            time.sleep(0.01)

    def wait_for_partitions(self, within_s: float = 120.0) -> None:
        """Wait until each partition has acknowledged a record since this call.

        A default client waits a minute for a paused broker; the stubborn ones ask all brokers.
        """
        begun_s = time.monotonic()
        asking = [*self.writers, *self._stubborn()]
        while any(
            max(one.answered_s.get(partition, 0.0) for one in asking) < begun_s
            for partition in range(self.history.partitions)
        ):
            if time.monotonic() > begun_s + within_s:
                raise TimeoutError("some partition came to a halt")
            time.sleep(0.01)

    def _stubborn(self) -> list[raw.Stubborn]:
        return [one for one in self.auditors if isinstance(one, raw.Stubborn)]

    def conclude(self) -> None:
        """Heal, let every worker finish, start all brokers anew, read everything."""
        self.nemesis.heal()
        if self.mover.is_alive():
            self.mover.finish()
            self.mover.wait_until_arrived()
            self.wait_for_partitions()  # records come last: what they stand for can be read
        stubborn = self._stubborn()
        for worker in [*self.writers, *self.transactors, *stubborn, *self.neighbours]:
            worker.stopping.set()
        for worker in [*self.writers, *stubborn]:
            worker.finish(Writer.flush_s + 10)
        for neighbour in self.neighbours:
            neighbour.finish(PATIENCE_S)
            self.history.lives += neighbour.lives
        for transactor in self.transactors:
            transactor.finish(PATIENCE_S)
        ends = raw.ends(self.ports, self.history.partitions)
        self.follower.wait_for(ends, within_s=120.0)
        if self.members:
            wait_for_group(self.group, ends, self.members[0])
        for worker in [*self.members, self.follower, *self.auditors]:
            worker.stopping.set()
        for worker in [*self.members, self.follower, *self.auditors]:
            worker.finish()
        # What was only in memory must not help.
        self.cluster.kill_brokers()
        self.cluster.start_brokers()
        ends = raw.ends(self.ports, self.history.partitions)
        self.history.found = raw.read_log(self.ports, ends)
        if self.transactors:
            owners = [transactor.name for transactor in self.transactors]
            read_the_end(self.cluster.reach, self.ports, PLACES, owners, self.transactions)
        # No process may write any more, and no request be under way: the list is of one moment.
        self.cluster.kill_brokers()
        time.sleep(0.5)
        self.history.listed = self.cluster.listing()


@contextmanager
def field_of(
    shape: Shape, seed: int, folder: Path, say: Callable[[str], None] = print
) -> Iterator[Field]:
    """Cluster and workers, started; left behind clean."""
    history = History(len(places.PLACES))
    with Cluster(
        folder,
        history,
        brokers=shape.brokers,
        etcd_members=shape.etcd_members,
        seed=seed,
        settings=shape.settings,
        guarded=shape.guarded,
    ) as cluster:
        create_topics(cluster.reach, with_transfers=bool(shape.transactors))
        field_ = Field(cluster, shape, say)
        try:
            yield field_
        finally:
            for worker in field_.workers():
                worker.stopping.set()


def create_topics(reach: Reach, *, with_transfers: bool = False) -> None:
    """One or more of every kind."""
    admin = AdminClient({**reach, **QUIET})
    wanted = [
        NewTopic(kind.topic, num_partitions=kind.partitions, config=dict(kind.configs))
        for kind in places.KINDS
    ]
    if with_transfers:
        wanted += [
            NewTopic(name, num_partitions=PARTITIONS, config=dict(configs))
            for name, configs in TOPICS.items()
        ]
    for created in admin.create_topics(wanted).values():
        created.result(60)


def judged(
    name: str,
    shape: Shape,
    seed: int,
    act: Callable[[Field], None],
    say: Callable[[str], None] = print,
) -> Verdict:
    """Start, let `act` do its worst, conclude, judge. Everything is kept if anything is found."""
    folder = FOLDER / f"{name}-{seed}-{time.strftime('%H%M%S')}"
    began_s = time.monotonic()
    history: History | None = None
    kept = True
    try:
        with field_of(shape, seed, folder, say) as running:
            history = running.history
            running.start()
            act(running)
            running.conclude()
        findings = check(history) + check_transactions(running.transactions)
        kept = bool(findings)
        if findings:
            (folder / "findings.txt").write_text(
                "\n".join(f"{one.kind}: {one.text}" for one in findings) + "\n"
            )
        seconds = time.monotonic() - began_s
        return Verdict(history, findings, folder, seconds, running.transactions)
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        elif history is not None:
            history.save(folder / "history.jsonl")
            (folder / "bucket.txt").write_text(
                "".join(f"{one.digest} {one.key}\n" for one in history.listed)
            )


def under(steps: Sequence[Step]) -> Callable[[Field], None]:
    """The plan, from the moment the first records are acknowledged."""

    def act(running: Field) -> None:
        running.wait_for_answers(100)
        running.nemesis.go(steps, time.monotonic())

    return act

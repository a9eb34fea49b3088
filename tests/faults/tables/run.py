"""One run from start to verdict: broker, bucket, runners, catalog, producers, faults, judgement."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from confluent_kafka.admin import AdminClient

from kafscale.spark.lake import attempts
from kafscale.spark.lake.table import BUCKET_CATALOG
from kafscale.spark.lake.tables import open_table
from tests.faults.cluster import NAMESPACE, Cluster
from tests.faults.history import History
from tests.faults.s3_proxy import Manners
from tests.faults.tables import judge
from tests.faults.tables.catalog import TOKEN, CatalogProcess, CatalogReader
from tests.faults.tables.runners import LEASE_S, STORE, RunnerProcess, said
from tests.faults.tables.writers import PARTITIONS, TABLES, WRITERS, create
from tests.faults.workers import QUIET

RUNNERS = 2
# What a runner's door to the bucket does, for seconds.
DOORS: Mapping[str, Manners] = {
    "slow": Manners(slow_s=0.3),
    "errors": Manners(errors=0.2, throttled=0.1),
    "lost answers": Manners(lost_answers=0.2),
    "late": Manners(late=0.2, late_s=2.0),
    "down": Manners(down=True),
}
OF_RUNNERS = ("kill", "kill", "kill", "pause", "stop", *DOORS)
OF_READERS = ("catalog killed", "catalog slow")
FAULTS = (*OF_RUNNERS, *OF_READERS, "broker", "store paused", "store killed")


@dataclass(slots=True)
class TablesVerdict:
    """What came out."""

    findings: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    commits_under_attack: int = 0
    unanswered: int = 0  # records whose producer was never told what became of them
    read: int = 0  # times that a reader got a table from the catalog

    def __str__(self) -> str:
        told = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        rows = ", ".join(f"{name} {count}" for name, count in self.rows.items())
        verdict = "\n".join(self.findings) or "rows = records, once"
        return (
            f"faults: {told}\nrows: {rows}\ncommits under attack: {self.commits_under_attack}\n"
            f"records without an answer: {self.unanswered}\n"
            f"readings through the catalog: {self.read}\n{verdict}"
        )


def attacked(
    seconds: float,
    seed: int,
    say: Callable[[str], None] = print,
    faults: Sequence[str] = FAULTS,
) -> TablesVerdict:
    """Play a run; the folder with what processes printed stays if there are findings."""
    folder = Path(tempfile.mkdtemp(prefix="tables-"))
    history = History(PARTITIONS)
    with Cluster(folder, history, brokers=1, etcd_members=1, seed=seed) as cluster:
        verdict = _Run(cluster, seed, say, faults).play(seconds)
    if verdict.findings:
        say(f"{said(folder)[-4000:]}\nwhat processes printed is in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict


class _Run:
    def __init__(
        self, cluster: Cluster, seed: int, say: Callable[[str], None], faults: Sequence[str]
    ) -> None:
        self._cluster = cluster
        self._faults = faults
        self._dice = random.Random(seed)
        self._say = say
        self._verdict = TablesVerdict()
        self._runners = [RunnerProcess(cluster, number) for number in range(RUNNERS)]
        self._catalog = CatalogProcess(cluster)

    def play(self, seconds: float) -> TablesVerdict:
        reach = self._cluster.reach
        admin = AdminClient({**reach, **QUIET})
        for topic in TABLES:
            create(admin, topic)
        writers = [kind(reach, self._cluster.history, self._cluster.seed) for kind in WRITERS]
        reader = CatalogReader(self._catalog, self._cluster.history, "deals")
        endpoint = self._cluster.s3.endpoint
        try:
            for worker in (*writers, *self._runners, self._catalog, reader):
                worker.start()
            self._wait_for_a_commit()
            self._attack(seconds)
            self._verdict.commits_under_attack = self._commits()
            for writer in writers:
                writer.finish(240)
            self._make_peace()
            reader.finish(240)
            tables = judge.rows_of(endpoint)
            shown = judge.rows_of_catalog(endpoint, self._catalog.url, TOKEN)
        finally:
            for one in (*writers, reader):
                one.stopping.set()
            for process in (*self._runners, self._catalog):
                process.close()
        self._verdict.read = reader.seen
        self._verdict.unanswered = sum(writer.unanswered for writer in writers)
        found = self._verdict.findings
        found += [f"{one.worker}: {one.what}" for one in self._cluster.history.troubles]
        found += judge.catalog_findings(tables, shown)
        try:
            topics = {topic: judge.records_of(reach, topic) for topic in TABLES}
        except judge.NotReadable as problem:
            found.append(str(problem))
        else:
            found += judge.findings(tables, topics, {writer.topic: writer for writer in writers})
        self._verdict.rows = {topic: len(rows) for topic, rows in tables.items()}
        self._sweep()
        return self._verdict

    def _attack(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            name = self._dice.choice(self._faults)
            self._verdict.faults[name] += 1
            runner = self._dice.choice(self._runners)
            self._say(f"{name} {runner.name}")
            self._do(name, runner)
            time.sleep(self._dice.uniform(0.5, 3))

    def _do(self, name: str, runner: RunnerProcess) -> None:
        match name:
            case "kill":
                runner.kill()
                runner.start()
            case "pause":
                runner.pause()
                time.sleep(self._dice.uniform(1, 5))  # or longer than the lease
                runner.resume()
            case "stop":
                self._stop(runner)
                runner.start()
            case "broker":
                (node,) = self._cluster.nodes
                node.broker.kill()
                self._cluster.start_broker(node)
            case "catalog killed":
                self._catalog.kill()
                self._catalog.start()
            case "catalog slow":
                self._catalog.s3.behave(DOORS["slow"])
                time.sleep(self._dice.uniform(1, 4))
                self._catalog.s3.behave()
            case "store paused":
                self._cluster.s3.pause()
                time.sleep(self._dice.uniform(1, 4))
                self._cluster.s3.resume()
            case "store killed":
                self._cluster.s3.kill()
                self._cluster.s3.start()
            case _:
                runner.s3.behave(DOORS[name])
                time.sleep(self._dice.uniform(1, 4))
                runner.s3.behave()

    def _commits(self) -> int:
        """Versions of tables so far."""
        return sum(
            "/_delta_log/" in row.key or row.key.endswith(".metadata.json")
            for row in self._cluster.listing()
        )

    def _wait_for_a_commit(self) -> None:
        """The attack begins when runners work."""
        deadline = time.monotonic() + 120
        while not self._commits():
            assert time.monotonic() < deadline, said(self._cluster.folder)[-3000:]
            time.sleep(0.2)

    def _make_peace(self) -> None:
        """Runners end when they are asked to; what is left is done once more."""
        for runner in self._runners:
            self._stop(runner)
        time.sleep(LEASE_S + 1)  # leases of the killed run out
        if code := self._runners[0].once():
            self._verdict.findings.append(f"the last run, undisturbed, ended with {code}")

    def _stop(self, runner: RunnerProcess) -> None:
        """As an operator does. One that has only just been started may not know the signal yet."""
        code = runner.stop()
        if code not in (0, -signal.SIGTERM):
            self._verdict.findings.append(f"{runner.name}: asked to stop, exit code {code}")

    def _sweep(self) -> None:
        """Let the pipeline sweep what crashes left, as it does a day later; nothing may remain."""
        endpoint = self._cluster.s3.endpoint
        with patch.dict(os.environ, self._cluster.s3.broker_environment(NAMESPACE)):
            for topic, kind in TABLES.items():
                catalog = BUCKET_CATALOG if kind == "iceberg" else ""
                table = open_table(f"{STORE}/@tables/{topic}", kind, catalog)
                attempts.sweep(table, grace_ms=-1)
        if left := judge.leftovers(endpoint):
            self._verdict.findings.append(f"{len(left)} files are never swept, such as {left[0]}")

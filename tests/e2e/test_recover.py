"""The metadata store is lost: everything comes back from the bucket, with real clients."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from kafscale.admin.bucket import topic_lookup
from kafscale.log.formats import segment
from kafscale.records.batch import walk
from kafscale.settings.loading import load
from tests.e2e.conftest import AGAINST, watched
from tests.e2e.test_kill import wait_for_answers
from tests.support import etcd
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent, ConfluentMember
from tests.support.history import problems
from tests.support.load import Load, read_all

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="Apache Kafka keeps no metadata in a bucket"),
]
PARTITIONS = 3
RECORDS = 300
TOPIC = "under-load"


class Cluster:
    """A broker, its bucket, and a metadata store that can be lost."""

    def __init__(self, folder: Path, env: dict[str, str], server: etcd.EtcdCluster | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "settings.yaml"
        settings.write_text("storage:\n  checkpointInterval: 200ms\n", "utf-8")
        self._server = server
        env = {"KAFSCALE_CONFIG": str(settings), **env}
        if server is not None:
            env["KAFSCALE_ETCD_ENDPOINTS"] = server.endpoints[0]
        self.broker = KafscaleProcess(folder / "broker", env)
        self.elsewhere = folder / "elsewhere"

    def lose_metadata(self) -> etcd.EtcdCluster | None:
        """Gives the etcd that is there instead."""
        if self._server is None:
            for file in self.broker.data.glob("metadata.db*"):
                file.unlink()
            return None
        self._server.kill()
        other = etcd.EtcdCluster().start()
        self.broker.extra_env["KAFSCALE_ETCD_ENDPOINTS"] = other.endpoints[0]
        return other

    def run(self, *words: str, within_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kafscale.cli.main", *words],
            env={**os.environ, **self.broker.environment(), **self.broker.extra_env},
            cwd=self.broker.folder,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )

    def recover(self, *words: str) -> dict[str, Any]:
        ended = self.run("recover", "--from-bucket", "--json", *words)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return dict(json.loads(ended.stdout))

    def wait_for_checkpoint(self, offsets: int) -> None:
        """Until one is in the bucket that has so many offsets, by a look at the bucket."""
        where = ["--data-dir", str(self.elsewhere), "--set", "etcd.endpoints="]
        if "KAFSCALE_S3_BUCKET" not in self.broker.extra_env:
            where += ["--store", str(self.broker.data)]
        deadline = time.monotonic() + 120
        while True:
            # What a running broker writes meanwhile may well look unfinished.
            ended = self.run("recover", "--from-bucket", "--json", "--dry-run", *where)
            facts = json.loads(ended.stdout)
            if facts["offsets"]["written"] == offsets:
                return
            assert time.monotonic() < deadline, facts


@pytest.fixture(params=["sqlite-files", "sqlite-s3", "etcd-s3"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    metadata, store = request.param.split("-")
    env: dict[str, str] = {}
    if store == "s3":
        env = request.getfixturevalue("seaweed_server").broker_environment(f"lost-{metadata}")
    if metadata == "sqlite":
        yield Cluster(tmp_path, env, None)
        return
    if reason := etcd.missing():
        pytest.skip(reason)
    with etcd.EtcdCluster() as server:
        yield Cluster(tmp_path, env, server)


def topic_ids(bootstrap: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = list(admin.list_topics(timeout=30).topics)
    found = admin.describe_topics(TopicCollection(names))
    return {name: str(future.result(30).topic_id) for name, future in found.items()}


async def _producer_ids(cluster: Cluster, topic: str) -> set[int]:
    environment = {**cluster.broker.environment(), **cluster.broker.extra_env}
    config = load(None, environment, {})
    found: set[int] = set()
    async with topic_lookup.opened(config) as store:
        descriptor = await topic_lookup.find_topic(store, config.storage.namespace, topic)
        for folder in topic_lookup.log_folders(descriptor, None):
            for piece in (await topic_lookup.survey_log(store, folder)).pieces:
                data = await store.read(piece.key)
                for span in segment.parse(data).spans:
                    batches = walk(data, span.start, span.start + span.length)
                    found |= {header.producer_id for _, header in batches}
    return found


def producer_ids(cluster: Cluster, topic: str) -> set[int]:
    """As the objects of a topic have them."""
    return asyncio.run(_producer_ids(cluster, topic))


def drained(member: ConfluentMember, count: int) -> list[bytes | None]:
    """The next so many values a group gets, and nothing behind them."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + 120
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count}"
        values += [stored.value for stored in member.poll()]
    return values


def prepare(cluster: Cluster) -> None:
    """Topics made, changed, deleted, made again; a group half way through one of them."""
    client = Confluent(cluster.broker.bootstrap)
    for name in ("orders", "gone", "again"):
        client.create_topic(name, 1)
    client.alter_config("orders", "SET", "retention.ms", "12345678")
    for name in ("gone", "again"):
        client.produce(name, [Record(0, None, b"old")])
        client.delete_topic(name)
    client.create_topic("again", 2)
    client.produce("again", [Record(1, b"key", b"new")])
    values = [Record(0, None, b"%d" % number) for number in range(RECORDS)]
    client.produce_idempotently("orders", values)
    client.commit("half-way", "orders", {0: RECORDS // 2})
    client.commit("beyond", "orders", {0: RECORDS + 7})


def test_topics_groups_and_producers_go_on_when_metadata_is_lost(cluster: Cluster) -> None:
    with watched(cluster.broker) as broker:
        prepare(cluster)
        client = Confluent(broker.bootstrap)
        client.create_topic(TOPIC, PARTITIONS)
        # These two live through it: a producer with batches in flight, a member of a group.
        producing = Load("idempotent", broker.bootstrap, TOPIC, PARTITIONS, idempotent=True)
        producing.start()
        survivor = ConfluentMember(
            broker.bootstrap, "living", "orders", enable_auto_commit=True,
            auto_commit_interval_ms=100,
        )  # fmt: skip
        assert len(drained(survivor, RECORDS)) == RECORDS
        wait_for_answers([producing], 500)
        while client.committed("living", "orders", 0) != RECORDS:
            survivor.poll()
        ids, configs = topic_ids(broker.bootstrap), client.configs("orders")
        identity = client.cluster()
        client.commit("seen", "orders", {0: 1})
        cluster.wait_for_checkpoint(4)
        wait_for_answers([producing], 200)
        broker.kill()
        used = producer_ids(cluster, "orders") | producer_ids(cluster, TOPIC)
        other = cluster.lose_metadata()
        try:
            check_recovery(cluster, producing, survivor, used)
            client = Confluent(broker.bootstrap)
            assert topic_ids(broker.bootstrap) == ids
            assert client.configs("orders") == configs == {"retention.ms": "12345678"}
            assert client.list_topics() == {"orders": 1, "again": 2, TOPIC: PARTITIONS}
            assert client.cluster().cluster_id == identity.cluster_id
            assert client.cluster().brokers == identity.brokers
            assert [row.value for row in client.consume("again", [0, 1], 1)] == [b"new"]
        finally:
            survivor.leave()
            if other is not None:
                broker.kill()
                other.close()


def check_recovery(
    cluster: Cluster, producing: Load, survivor: ConfluentMember, used: set[int]
) -> None:
    broker = cluster.broker
    refused = cluster.run("serve")
    assert refused.returncode == 1
    assert "kafscale recover --from-bucket" in refused.stderr
    facts = cluster.recover()
    assert facts["topics"]["written"] == 3
    assert facts["topics"]["removals_noted"] == 2
    assert facts["offsets"]["beyond_log_end"] == 1
    assert facts["checkpoint"]["age_s"] < 600
    assert facts["next"]["producer-ids"] > max(used)
    assert cluster.recover("--force")["changes"] == 0

    broker.start()
    wait_for_answers([producing], 200)
    assert producing.finish() == 0
    assert producing.errors == []
    log = read_all(broker.bootstrap, TOPIC, PARTITIONS)
    assert problems([producing.history], log)[:20] == []

    client = Confluent(broker.bootstrap)
    member = ConfluentMember(broker.bootstrap, "half-way", "orders")
    rest = [b"%d" % number for number in range(RECORDS // 2, RECORDS)]
    assert drained(member, len(rest)) == rest
    client.produce_idempotently("orders", [Record(0, None, b"after")])
    assert drained(member, 1) == [b"after"]
    member.leave()
    # It was at the end, and gets what came since: nothing again.
    assert drained(survivor, 1) == [b"after"]
    assert client.committed("beyond", "orders", 0) == RECORDS + 7
    fresh = producer_ids(cluster, "orders") - used
    assert fresh
    assert min(fresh) > max(used)


def test_a_recovery_that_is_killed_is_run_again(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, {}, None)
    with cluster.broker as broker:
        client = Confluent(broker.bootstrap)
        for number in range(30):
            client.create_topic(f"t{number}", 1)
        for number in range(60):
            client.commit(f"g{number}", f"t{number % 30}", {0: number})
        assert broker.stop() == 0
        cluster.lose_metadata()
        words = ["recover", "--from-bucket"]
        environment = {**os.environ, **broker.environment(), **broker.extra_env}
        command = [sys.executable, "-m", "kafscale.cli.main", *words]
        database = broker.data / "metadata.db"
        for _ in range(3):
            running = subprocess.Popen(command, env=environment, cwd=broker.folder)
            while not database.exists() and running.poll() is None:
                time.sleep(0.001)
            running.kill()
            running.wait()
        cluster.recover()
        broker.start()
        client = Confluent(broker.bootstrap)
        assert len(client.list_topics()) == 30
        assert [client.committed(f"g{n}", f"t{n % 30}", 0) for n in (0, 31, 59)] == [0, 31, 59]


def test_it_does_not_mix_two_clusters_by_accident(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "one", {}, None)
    with cluster.broker as broker:
        Confluent(broker.bootstrap).create_topic("theirs", 1)
        busy = cluster.run("recover", "--from-bucket")
        assert busy.returncode == 1
        assert "is already in use by process" in busy.stderr
    another = Cluster(tmp_path / "two", {}, None)
    with another.broker as broker:
        Confluent(broker.bootstrap).create_topic("mine", 1)
        assert broker.stop() == 0
        words = ["--store", str(cluster.broker.data)]
        refused = another.run("recover", "--from-bucket", *words)
        assert refused.returncode == 1
        assert "has 1 topics already; --force adds" in refused.stderr
        planned = another.run("recover", "--from-bucket", "--dry-run", *words)
        assert "would write:\n  topics   1 of 1" in planned.stdout
        assert planned.returncode == 1
        assert "topic mine: not in the bucket; left as it is" in planned.stdout

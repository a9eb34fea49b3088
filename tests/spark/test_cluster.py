"""The pipeline on a standalone cluster: executors are other processes with another environment.

They have kafscale as an installed package, not this checkout, and the store's credentials from
their environment. Brokers write all the while.
"""

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import deltalake
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from kafscale.spark.lake import delta
from tests.spark.hurried import HurriedBroker
from tests.spark.kafka import Row, consume, create, produce
from tests.support import seaweed
from tests.support.broker import KafscaleProcess
from tests.support.spark_cluster import SparkCluster

ROOT = Path(__file__).parents[2]
FIRST = 2000  # records there are before the first reader comes
PARTITIONS = 2


class Place(NamedTuple):
    """A store, its broker, and who writes to it."""

    store: str
    broker: KafscaleProcess
    env: dict[str, str]


class Writer(threading.Thread):
    """One record after the other into a topic, until told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._over = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self.failed: list[Any] = []

    def run(self) -> None:
        number = FIRST
        while not self._over.wait(0.02):
            self._producer.produce(
                self._topic, b"v%d" % number, b"k%d" % number, number % PARTITIONS,
                on_delivery=lambda error, _: error and self.failed.append(error),
            )  # fmt: skip
            self._producer.poll(0)
            number += 1
        self.failed += [self._producer.len()] if self._producer.flush(30) else []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self.join()
        assert kind is not None or self.failed == []


@pytest.fixture
def on_files() -> Iterator[Place]:
    """A broker that rolls up all the time, so that there is something to compact."""
    with HurriedBroker() as broker:
        yield Place(broker.store, broker, {})


_numbers = itertools.count()


@pytest.fixture(scope="module")
def on_s3(seaweed_server: seaweed.SeaweedServer) -> Iterator[Place]:
    namespace = f"on/cluster-{next(_numbers)}"  # test runners may come back to this fixture
    env = seaweed_server.broker_environment(namespace)
    with KafscaleProcess(env=env) as broker:
        mine = {name: env[name] for name in env if name.endswith(("ENDPOINT", "_KEY"))}
        yield Place(f"s3://{seaweed.BUCKET}/{namespace}", broker, mine)


def begin(place: Place, topic: str) -> Writer:
    """A topic with some records, and a producer that adds more."""
    create(place.broker.bootstrap, topic, PARTITIONS)
    some = [(n % PARTITIONS, b"k%d" % n, b"v%d" % n) for n in range(FIRST)]
    produce(place.broker.bootstrap, topic, some)
    return Writer(place.broker.bootstrap, topic)


def run(words: list[str], env: dict[str, str]) -> Any:
    """A driver of its own, which prints JSON."""
    ran = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env={**os.environ, **env},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout)


def pipeline(cluster: SparkCluster, place: Place, job: str, *words: str) -> Any:
    """`kafscale pipeline JOB` with the cluster as its master."""
    conf = cluster.conf(PYTHONPATH=cluster.installed(), **place.env)
    settings = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    command = ["kafscale.cli.main", "pipeline", job, "--store", place.store]
    before = cluster.applications()
    found = run([*command, "--master", cluster.url, *settings, "--json", *words], place.env)
    assert cluster.applications() == before + 1, "the cluster was not asked"
    return found


def expected(place: Place, topic: str) -> list[Row]:
    return consume(place.broker.bootstrap, topic, PARTITIONS)


def is_beginning(found: list[Any], whole: list[Any], at_least: int) -> bool:
    """Whether each partition has exactly its first so many rows, of at least these many in all."""
    ends = [sum(row[0] == number for row in found) for number in range(PARTITIONS)]
    return len(found) >= at_least and found == [row for row in whole if row[1] < ends[row[0]]]


def test_source_sink_and_compaction_work_on_files_and_in_a_bucket_while_brokers_write(
    cluster: SparkCluster, on_files: Place, on_s3: Place, tmp_path: Path
) -> None:
    places = {"files": on_files, "s3": on_s3}
    names = {"topic": "clustered", "sunk": "cluster-sunk", "loaded": "cluster-loaded"}
    for place in places.values():
        create(place.broker.bootstrap, names["sunk"], 3)
    given = {
        "master": cluster.url,
        "conf": cluster.conf(PYTHONPATH=cluster.installed(), **on_s3.env),
        "scratch": str(tmp_path),
        "compact": on_files.store,
        "places": {
            name: {"store": place.store, "bootstrap": place.broker.bootstrap, **names}
            for name, place in places.items()
        },
    }
    with begin(on_files, "clustered"), begin(on_s3, "clustered"):
        found = run(["tests.spark.on_cluster", json.dumps(given)], on_s3.env)
    compacted = found["compact"]
    assert compacted["objects_replaced"] > compacted["objects_written"] > 0
    jvms = {jvm for jvm, _ in found["executors"]}
    assert len(jvms) == 2, "not both workers were used"
    files = {file for _, file in found["executors"]}
    assert files == {f"{cluster.installed()}/kafscale/__init__.py"}
    for name, place in places.items():
        whole = [
            [row.partition, row.offset, str(row.key, "ascii"), str(row.value, "ascii")]
            for row in expected(place, "clustered")
        ]
        batch, stream = found[name]["batch"], found[name]["stream"]
        assert len(whole) > FIRST, "the producer wrote nothing"
        assert is_beginning(batch, whole, FIRST), name
        assert is_beginning(stream, whole, len(batch)), name
        ways = [consume(place.broker.bootstrap, names[way], 3) for way in ("sunk", "loaded")]
        sunk, loaded = (sorted((r.partition, r.key, r.value) for r in rows) for rows in ways)
        assert sunk == loaded
        assert sorted(int(value or b"") for _, _, value in sunk) == list(range(900))


def test_the_command_takes_a_cluster_as_its_master(cluster: SparkCluster, on_s3: Place) -> None:
    topic = f"cluster-jobs-{next(_numbers)}"  # a second try has a topic and a table of its own
    table = f"s3://{seaweed.BUCKET}/tables/{topic}"
    words = ["--table", table, "--format", "delta", "--value-format", "string"]
    with begin(on_s3, topic):
        exported = pipeline(cluster, on_s3, "export", "--topic", topic, *words)
    whole = [(row.partition, row.offset, row.value) for row in expected(on_s3, topic)]
    rows = [
        (row["_partition"], row["_offset"], row["value"].encode()) for row in lake(on_s3, table)
    ]
    assert len(whole) > FIRST, "the producer wrote nothing"
    assert len(rows) == exported["rows"][0]["records"]
    assert is_beginning(sorted(rows), whole, FIRST)


def lake(place: Place, table: str) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in place.env.items():
            patch.setenv(name, value)
        opened = deltalake.DeltaTable(table, storage_options=delta.storage_options())
    columns = "_partition, _offset, value"
    rows = deltalake.QueryBuilder().register("t", opened).execute(f"select {columns} from t")
    return pa.table(rows.read_all()).to_pylist()

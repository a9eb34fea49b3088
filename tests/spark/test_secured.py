"""What of the pipeline talks to brokers does so over TLS, with a login."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs import replay
from kafscale.spark.jobs.replay import ReplayRequest
from tests.spark.kafka import TIMEOUT_S, consume, create, produce
from tests.support import secured
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    DENIED_PASSWORD,
    SecuredProcess,
    Settings,
    java_properties,
)
from tests.support.spark_kafka import add_connector


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredProcess]:
    """Tests look at it through its listener without logins, jobs use the one with them."""
    with SecuredProcess(tmp_path_factory.mktemp("guarded")) as broker:
        create(broker.bootstrap, "orders", 2)
        rows = [(n % 2, b"k%d" % n, b"%d" % n) for n in range(100)]
        produce(broker.bootstrap, "orders", rows)
        yield broker


@pytest.fixture
def login(guarded: SecuredProcess) -> Settings:
    return secured.with_password(guarded, "SCRAM-SHA-256", ADMIN, ADMIN_PASSWORD)


@pytest.fixture
def login_file(login: Settings, tmp_path: Path) -> str:
    file = tmp_path / "login"
    file.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
    return str(file)


def run(*words: str) -> None:
    """A command of its own: it reads its job's options from the command line."""
    command = [sys.executable, "-m", "kafscale.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ADMIN_PASSWORD not in done.stdout + done.stderr


def values(broker: KafscaleProcess, topic: str, partitions: int = 1) -> list[int]:
    return sorted(int(row.value or b"") for row in consume(broker.bootstrap, topic, partitions))


def test_the_sink_logs_in_and_says_why_it_cannot(
    spark: SparkSession, guarded: SecuredProcess, login: Settings
) -> None:
    create(guarded.bootstrap, "sunk", 1)
    rows = spark.range(50, numPartitions=2).selectExpr("string(id) as value")

    def write(settings: Settings) -> None:
        options = {f"kafka.{name}": value for name, value in settings.items()}
        options |= {"kafka.bootstrap.servers": guarded.at("SASL_SSL"), "topic": "sunk"}
        rows.write.format("kafscale").options(**options).mode("append").save()

    write(login)
    assert values(guarded, "sunk") == list(range(50))
    wrong = login | {"sasl.password": DENIED_PASSWORD, "message.timeout.ms": "3000"}
    with pytest.raises(PySparkException) as refused:
        write(wrong)
    assert DENIED_PASSWORD not in str(refused.value)
    assert values(guarded, "sunk") == list(range(50))


def test_sparks_own_connector_reads_with_a_login(
    spark: SparkSession, guarded: SecuredProcess, login: Settings
) -> None:
    try:
        add_connector(spark)
    except Unavailable as reason:
        pytest.skip(f"Spark's Kafka connector: {reason}")
    given = java_properties(guarded.at("SASL_SSL"), login)
    options = {f"kafka.{name}": value for name, value in given.items()}
    frame = spark.read.format("kafka").options(**options, subscribe="orders").load()
    assert sorted(int(row["value"]) for row in frame.select("value").collect()) == list(range(100))


def test_replay_and_its_tasks_log_in(
    spark: SparkSession, guarded: SecuredProcess, login: Settings
) -> None:
    create(guarded.bootstrap, "again", 1)
    context = Context(Bucket(f"file://{guarded.data}"), session=spark)
    wanted = ReplayRequest(topic="orders", into="again", bootstrap=guarded.at("SASL_SSL"))
    assert replay.replay(context, wanted, login).facts["records"] == 100
    assert values(guarded, "again") == list(range(100))


def committed(broker: KafscaleProcess, group: str, topic: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = [ConsumerGroupTopicPartitions(group)]
    answer = admin.list_consumer_group_offsets(asked)[group].result(TIMEOUT_S)
    found = answer.topic_partitions or []
    return {place.partition: place.offset for place in found if place.topic == topic}


def commit(broker: KafscaleProcess, group: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    places = [TopicPartition(topic, 0, 10), TopicPartition(topic, 1, 20)]
    wish = [ConsumerGroupTopicPartitions(group, places)]
    admin.alter_consumer_group_offsets(wish)[group].result(TIMEOUT_S)


def test_convert_takes_groups_along_with_a_login(guarded: SecuredProcess, login_file: str) -> None:
    commit(guarded, "billing", "orders")
    words = ["pipeline", "convert", "--store", f"file://{guarded.data}", "--topic", "orders"]
    words += ["--to", "orders-2", "--group", "billing", "--bootstrap", guarded.at("SASL_SSL")]
    run(*words, "--bootstrap-config", login_file)
    assert committed(guarded, "billing", "orders-2") == {0: 10, 1: 20}


def test_mirror_reads_and_commits_with_a_login(
    guarded: SecuredProcess, login_file: str, tmp_path: Path
) -> None:
    """From one broker with logins; its groups go to another, which has its own."""
    commit(guarded, "readers", "orders")
    with SecuredProcess(tmp_path / "target") as target:
        login = secured.with_password(target, "SCRAM-SHA-512", ADMIN, ADMIN_PASSWORD)
        file = tmp_path / "login-of-target"
        file.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
        words = ["pipeline", "mirror", "--store", f"file://{target.data}", "--topic", "orders"]
        words += ["--from", guarded.at("SASL_SSL"), "--from-config", login_file, "--groups"]
        words += ["--bootstrap", target.at("SASL_SSL"), "--bootstrap-config", str(file)]
        run(*words)
        assert values(target, "orders", 2) == list(range(100))
        assert committed(target, "readers", "orders") == {0: 10, 1: 20}

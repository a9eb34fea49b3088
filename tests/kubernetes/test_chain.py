"""A KafscaleCluster becomes brokers that clients use: the operator and brokers as real processes.

Every test runs on a fake API server with fake controllers, and on a real control plane where it is
built (`make kube`). Pods are processes in both (tests/support/kubernetes).
"""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.support.kubernetes.cluster import IMAGE, OTHER_IMAGE, TestKubernetes

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(1200)]

PRODUCE = """
import sys
from confluent_kafka import Producer
failed = []
producer = Producer({"bootstrap.servers": sys.argv[1]})
for number in range(int(sys.argv[3])):
    told = lambda error, message: error and failed.append(error)
    producer.produce(sys.argv[2], f"{number}".encode(), on_delivery=told)
assert producer.flush(100) == 0 and not failed, failed
"""
CONSUME = """
import sys
from confluent_kafka import Consumer
settings = {"bootstrap.servers": sys.argv[1], "group.id": "g", "auto.offset.reset": "earliest"}
consumer = Consumer(settings)
consumer.subscribe([sys.argv[2]])
found = set()
while len(found) < int(sys.argv[3]):
    message = consumer.poll(1)
    if message is not None and message.error() is None:
        found.add(message.value().decode())
consumer.close()
print(len(found))
"""
RESUME = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g"})
consumer.subscribe([sys.argv[2]])
value = ""
while value != sys.argv[3]:
    message = consumer.poll(1)
    if message is not None and message.error() is None:
        value = message.value().decode()
        print(value)
consumer.close()
"""
TRANSACT = """
import os, sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "transactional.id": "t"})
producer.init_transactions(100)
producer.begin_transaction()
producer.produce(sys.argv[2], sys.argv[3].encode(), partition=0)
assert producer.flush(100) == 0
if sys.argv[3] == "lost":
    os._exit(0)
producer.commit_transaction(100)
"""
UNDER_LOAD = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "enable.idempotence": True})
told, failed, longest = 0, [], 0.0
def delivered(error, message):
    global told
    told += 1
    if error:
        failed.append(error)
end = time.monotonic() + float(sys.argv[3])
number = 0
while time.monotonic() < end:
    began = time.monotonic()
    producer.produce(sys.argv[2], f"{number}".encode(), on_delivery=delivered)
    producer.flush(100)
    longest = max(longest, time.monotonic() - began)
    number += 1
assert not failed, failed
print(number, round(longest, 1))
"""
# Idempotent producers leave no record twice: the offsets of a topic count its records.
RECORDS = """
import sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "count"})
topic = consumer.list_topics(sys.argv[2], timeout=60).topics[sys.argv[2]]
logs = [TopicPartition(topic.topic, number) for number in topic.partitions]
ends = [consumer.get_watermark_offsets(log, timeout=60) for log in logs]
print(sum(high - low for low, high in ends))
consumer.close()
"""


@pytest.mark.slow
async def test_a_cluster_and_a_topic_serve_clients_by_their_names(
    kubernetes: TestKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(replicas=2)
    kubernetes.apply_topic("orders", config={"max.message.bytes": "5000"})
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    status = kubernetes.one("KafscaleCluster", "c")["status"]
    assert (status["phase"], status["brokerCount"]) == ("Running", 2)
    assert status["bootstrap"] == kubernetes.bootstrap
    topic = kubernetes.one("KafscaleTopic", "orders")["status"]
    assert {one["leader"] for one in topic["partitions"]} <= {"0", "1"}
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "100")
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "100") == ["100"]

    # More partitions and another setting reach the brokers; fewer are refused.
    kubernetes.change(
        "KafscaleTopic", "orders", {"spec": {"partitions": 5, "retentionMs": 3600000}}
    )
    await kubernetes.until("grown", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    kubernetes.apply_topic("orders-again", topicName="orders", partitions=2)
    await kubernetes.until(
        "duplicate",
        lambda: kubernetes.condition("KafscaleTopic", "orders-again").get("reason") == "Duplicate",
    )

    # A wrong setting is told and changes nothing; the right one is accepted.
    kubernetes.change("KafscaleCluster", "c", {"spec": {"config": {"broker": {"no.such": "1"}}}})
    await kubernetes.until(
        "refused",
        lambda: kubernetes.condition("KafscaleCluster", "c").get("reason") == "SettingRefused",
    )
    assert kubernetes.ready() == 2


@pytest.mark.kubernetes
async def test_a_roll_takes_one_broker_at_a_time_and_a_bad_image_is_corrected(
    kubernetes: TestKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(replicas=2)
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    kubernetes.change("KafscaleCluster", "c", {"spec": {"brokers": {"image": "kafscale:bad"}}})
    await kubernetes.until(
        "bad image",
        lambda: (
            kubernetes.condition("KafscaleCluster", "c", "BrokersReady").get("reason")
            == "ImagePull"
        ),
    )
    assert kubernetes.ready() == 1  # the other one serves
    kubernetes.change("KafscaleCluster", "c", {"spec": {"brokers": {"image": OTHER_IMAGE}}})
    await kubernetes.until("corrected", lambda: _images(kubernetes) == {OTHER_IMAGE})
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))

    before = {pod["metadata"]["uid"] for pod in kubernetes.pods()}
    load = asyncio.create_task(kubernetes.python(UNDER_LOAD, kubernetes.bootstrap, "orders", "30"))
    await asyncio.sleep(2)
    kubernetes.change("KafscaleCluster", "c", {"spec": {"brokers": {"image": IMAGE}}})
    fewest = 2

    def rolled_out() -> bool:
        nonlocal fewest
        fewest = min(fewest, kubernetes.ready())
        return (
            _images(kubernetes) == {IMAGE}
            and kubernetes.is_so("KafscaleCluster", "c", "RolledOut")
            and kubernetes.is_so("KafscaleCluster", "c")
        )

    took_s = await kubernetes.until("rolled out", rolled_out)
    assert fewest >= 1
    sent, longest = (await load)[0].split()
    print(f"{sent} records around a roll of {took_s:.0f} s, longest wait {longest} s")
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", sent) == [sent]
    assert await kubernetes.python(RECORDS, kubernetes.bootstrap, "orders") == [sent]
    assert not before & {pod["metadata"]["uid"] for pod in kubernetes.pods()}
    assert kubernetes.kubelet.restarts == {}


def _images(kubernetes: TestKubernetes) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in kubernetes.pods()}


@pytest.mark.kubernetes
async def test_a_sleeping_cluster_is_woken_by_the_first_client(kubernetes: TestKubernetes) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(managed=True, replicas=1, idleAfter="6s")
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "10")
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "10") == ["10"]
    await kubernetes.python(TRANSACT, kubernetes.bootstrap, "orders", "lost")  # and never committed
    await kubernetes.until("asleep", lambda: _running(kubernetes) == {"kafscale-activator"})
    await kubernetes.until(
        "told", lambda: kubernetes.condition("KafscaleCluster", "c").get("reason") == "Idle"
    )
    assert kubernetes.is_so("KafscaleTopic", "orders")  # as it was told to be

    # With default timeouts, clients find groups, offsets and transactions where they were.
    await kubernetes.python(TRANSACT, kubernetes.bootstrap, "orders", "kept")
    await kubernetes.until("awake", lambda: kubernetes.ready() == 1)
    assert await kubernetes.python(RESUME, kubernetes.bootstrap, "orders", "kept") == ["kept"]

    # A new topic wakes brokers, too.
    await kubernetes.until("asleep again", lambda: kubernetes.pods() == [])
    kubernetes.apply_topic("later")
    await kubernetes.until("woken", lambda: kubernetes.is_so("KafscaleTopic", "later"))


def _running(kubernetes: TestKubernetes) -> set[str]:
    """What has a pod in the namespace of the cluster."""
    pods = kubernetes.api.all_of("Pod", kubernetes.namespace)
    return {pod["metadata"]["labels"]["app"] for pod in pods}


@pytest.mark.kubernetes
async def test_other_operators_take_over_twice_and_watches_that_break_lose_nothing(
    kubernetes: TestKubernetes,
) -> None:
    operators = [await kubernetes.start_operator()]
    await kubernetes.until("lease", lambda: kubernetes.leader() == "operator-0")
    operators += [await kubernetes.start_operator() for _ in range(2)]
    kubernetes.apply_cluster(replicas=1)
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    uid = kubernetes.pods()[0]["metadata"]["uid"]
    for brokers in (2, 1):
        leader = kubernetes.leader()
        killed = operators[int(leader[-1])]
        killed.kill()
        await killed.wait()
        kubernetes.change("KafscaleCluster", "c", {"spec": {"brokers": {"replicas": brokers}}})
        took_s = await kubernetes.until(
            "scaled", lambda wanted=brokers: _count(kubernetes) == wanted
        )  # type: ignore[misc]
        print(f"the operator after {leader} had {brokers} brokers ready after {took_s:.0f} s")
        assert kubernetes.leader() != leader
    # The first broker was left alone.
    assert uid in {pod["metadata"]["uid"] for pod in kubernetes.pods()}
    await kubernetes.cut_watches()
    kubernetes.change("KafscaleCluster", "c", {"spec": {"brokers": {"replicas": 2}}})
    await kubernetes.until("two", lambda: kubernetes.ready() == 2)


def _count(kubernetes: TestKubernetes) -> int:
    """Brokers, all of them ready; else none."""
    pods = kubernetes.pods()
    return len(pods) if kubernetes.ready() == len(pods) else 0


@pytest.mark.kubernetes
async def test_a_managed_etcd_gets_a_lost_member_back_and_outlives_its_cluster(
    kubernetes: TestKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(managed=True)
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    await kubernetes.until("members", lambda: kubernetes.ready("kafscale-etcd") == 3)
    kubernetes.api.delete("Pod", kubernetes.namespace, "c-etcd-1")
    kubernetes.kubelet.lose_volume("c-etcd-1", "data")
    await kubernetes.until("gone", lambda: kubernetes.ready("kafscale-etcd") == 2)
    await kubernetes.until("back", lambda: kubernetes.ready("kafscale-etcd") == 3)
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "10")
    kubernetes.api.delete("KafscaleCluster", kubernetes.namespace, "c")
    await kubernetes.until(
        "gone", lambda: kubernetes.pods() + kubernetes.pods("kafscale-etcd") == []
    )

    # The bucket and the volumes are kept: the same object finds its records again.
    kubernetes.apply_cluster(managed=True)
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "10") == ["10"]


@pytest.mark.kubernetes
async def test_snapshots_are_judged_and_lost_metadata_comes_back_from_the_bucket_or_one_of_them(
    kubernetes: TestKubernetes,
) -> None:
    await kubernetes.start_operator()
    kubernetes.apply_cluster(managed=True)
    kubernetes.change("KafscaleCluster", "c", {"spec": {"etcd": kubernetes.snapshots("keys")}})
    kubernetes.apply_topic("orders")
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "orders"))
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "10")
    await kubernetes.until(
        "snapshot", lambda: kubernetes.is_so("KafscaleCluster", "c", "EtcdSnapshot")
    )
    assert kubernetes.one("KafscaleCluster", "c")["status"]["etcd"]["lastSnapshot"]
    kubernetes.run_cron_job("c-etcd-snapshot", "scheduled")
    await kubernetes.until(
        "scheduled",
        lambda: bool((kubernetes.one("Job", "scheduled").get("status") or {}).get("succeeded")),
    )
    assert kubernetes.is_so("KafscaleCluster", "c", "EtcdSnapshotAccess")

    # With keys that the bucket does not know, a job fails at once, and the condition says why.
    kubernetes.change("KafscaleCluster", "c", {"spec": {"etcd": kubernetes.snapshots("wrong")}})
    await kubernetes.until(
        "failed",
        lambda: (
            kubernetes.condition("KafscaleCluster", "c", "EtcdSnapshot").get("status") == "False"
        ),
    )
    reason = kubernetes.condition("KafscaleCluster", "c", "EtcdSnapshotAccess").get("reason")
    assert reason == "AccessDenied"
    kubernetes.change("KafscaleCluster", "c", {"spec": {"etcd": kubernetes.snapshots("keys")}})
    await kubernetes.until(
        "healed", lambda: kubernetes.is_so("KafscaleCluster", "c", "EtcdSnapshotAccess")
    )
    assert kubernetes.is_so("KafscaleCluster", "c", "EtcdSnapshot")

    # All of etcd is lost while no broker runs, and comes back from the topics' own bucket.
    stop = {"metadata": {"annotations": {"kafscale.io/stopped": "true"}}}
    kubernetes.change("KafscaleCluster", "c", stop)
    await _lose_etcd(kubernetes)
    await _restore(kubernetes, {"request": "monday"})
    go_on = {"metadata": {"annotations": {"kafscale.io/stopped": "false"}}}
    kubernetes.change("KafscaleCluster", "c", go_on)
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "10") == ["10"]

    # It is lost again, and comes back from the snapshot; brokers start by themselves.
    kubernetes.change("KafscaleCluster", "c", stop)
    await _lose_etcd(kubernetes)
    kubernetes.change("KafscaleCluster", "c", go_on)
    await _restore(kubernetes, {"request": "tuesday", "from": "Snapshot"})
    logs = [log.read_text() for log in kubernetes.folder.glob("c-restore-*.log")]
    assert any("rows written" in log for log in logs)
    await kubernetes.until("ready", lambda: kubernetes.is_so("KafscaleCluster", "c"))
    assert "from a snapshot" in kubernetes.condition("KafscaleCluster", "c", "Restoring")["message"]
    await kubernetes.python(PRODUCE, kubernetes.bootstrap, "orders", "20")
    assert await kubernetes.python(CONSUME, kubernetes.bootstrap, "orders", "20") == ["20"]


async def _lose_etcd(kubernetes: TestKubernetes) -> None:
    """End all members with their volumes while no broker runs; new ones begin empty."""
    await kubernetes.until("stopped", lambda: kubernetes.pods() == [])
    members = [pod["metadata"]["name"] for pod in kubernetes.pods("kafscale-etcd")]
    for member in members:
        kubernetes.kubelet.processes[member].kill()
    for member in members:
        kubernetes.kubelet.lose_volume(member, "data")
    await kubernetes.until("lost", lambda: kubernetes.ready("kafscale-etcd") < 3)
    await kubernetes.until("empty", lambda: kubernetes.ready("kafscale-etcd") == 3)


async def _restore(kubernetes: TestKubernetes, asked: dict[str, str]) -> None:
    kubernetes.change("KafscaleCluster", "c", {"spec": {"etcd": {"restore": asked}}})
    took_s = await kubernetes.until(
        "restored",
        lambda: (
            kubernetes.one("KafscaleCluster", "c")["status"].get("restored") == asked["request"]
        ),
    )
    print(f"metadata was restored ({asked}) after {took_s:.0f} s")
    reason = kubernetes.condition("KafscaleCluster", "c", "Restoring").get("reason")
    assert reason == "Restored"


# -- logins ----------------------------------------------------------------------------------

SECURED = """
import json, sys
from confluent_kafka import Consumer, Producer
settings = json.loads(sys.argv[1])
settings |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}
told = []
producer = Producer(settings)
for topic in ("orders", "secret"):
    producer.produce(topic, b"x", on_delivery=lambda error, message: told.append(str(error)))
    producer.flush(60)
print(told)
consumer = Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
while (message := consumer.poll(1)) is None or message.error():
    pass
print(message.value().decode())
consumer.close()
"""


def certificate(folder: Path, namespace: str) -> tuple[str, str]:
    """A certificate for the brokers of the cluster `c`, and its key; it is its own authority."""
    names = f"DNS:c-bootstrap.{namespace}.svc,DNS:*.c-brokers.{namespace}.svc"
    files = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=brokers", "-addext", f"subjectAltName={names}"),
            *("-out", str(files[0]), "-keyout", str(files[1])),
        ],
        check=True,
        capture_output=True,
    )
    return files[0].read_text(), files[1].read_text()


@pytest.mark.kubernetes
async def test_a_secured_cluster_has_topics_and_users_with_rights(
    kubernetes: TestKubernetes,
) -> None:
    await kubernetes.start_operator()
    shown, key = certificate(kubernetes.folder, kubernetes.namespace)
    kubernetes.apply_secret("certificate", **{"tls.crt": shown, "tls.key": key})
    tls = {"secretRef": "certificate", "authority": shown}
    kubernetes.apply_cluster(security={"tls": tls})
    kubernetes.apply_topic("orders", partitions=1)
    kubernetes.apply_topic("secret", partitions=1)
    rights = [
        {"resource": "Topic", "name": "orders", "operations": ["Read", "Write", "Describe"]},
        {"resource": "Group", "name": "readers", "operations": ["Read"]},
    ]
    kubernetes.apply_user("alice", acls=rights)
    await kubernetes.until("topic", lambda: kubernetes.is_so("KafscaleTopic", "secret"))
    await kubernetes.until("user", lambda: kubernetes.is_so("KafscaleUser", "alice"))
    login = kubernetes.secret("alice")
    settings = {
        "bootstrap.servers": kubernetes.bootstrap,
        "ssl.ca.pem": shown,
        "sasl.username": login["username"],
        "sasl.password": login["password"],
    }
    told, value = await kubernetes.python(SECURED, json.dumps(settings))
    assert told.startswith("['None', ")
    assert "authoriz" in told.lower()
    assert value == "x"

    # Without its object the user is let in no more.
    kubernetes.api.delete("KafscaleUser", kubernetes.namespace, "alice")
    await kubernetes.until(
        "gone", lambda: kubernetes.api.get("KafscaleUser", kubernetes.namespace, "alice") is None
    )
    refused = await kubernetes.python(LOGIN, json.dumps(settings))
    assert refused == ["refused"]


LOGIN = """
import json, sys
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
settings = {**json.loads(sys.argv[1]), "security.protocol": "SASL_SSL"}
while True:  # brokers hear of it within a second
    try:
        AdminClient({**settings, "sasl.mechanism": "SCRAM-SHA-256"}).list_topics(timeout=10)
    except KafkaException:
        print("refused")
        break
"""

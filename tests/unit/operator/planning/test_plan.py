"""The plan of a cluster: what is applied, deleted and told in which situation."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.seen import KubeJob, Pod, Service
from kafscale.operator.parts.brokers import brokers, settings_map
from kafscale.operator.parts.common import TEMPLATE, Defaults
from kafscale.operator.parts.jobs import restore_name
from kafscale.operator.planning import health
from kafscale.operator.planning.plan import ClusterPlan, plan
from kafscale.operator.planning.seen_cluster import SeenCluster, SnapshotFacts
from tests.support.kubernetes.golden import GOLDEN, golden_files
from tests.unit.operator.examples import (
    DEFAULTS,
    ETCD,
    NOW_MS,
    cluster,
    facts,
    pod,
    running,
    stateful_set,
)


def made(
    wanted: KafscaleCluster, seen: SeenCluster | None = None, defaults: Defaults = DEFAULTS
) -> ClusterPlan:
    return plan(wanted, seen or SeenCluster(), defaults, NOW_MS)


def template_of(wanted: KafscaleCluster) -> str:
    settings = settings_map(wanted, {})
    live = brokers(wanted, DEFAULTS, tuple(wanted.spec.etcd.endpoints), "", settings)
    name: str = live["metadata"]["annotations"][TEMPLATE]
    return name


def kinds(planned: ClusterPlan) -> list[str]:
    return [f"{one['kind']}/{one['metadata']['name']}" for one in planned.objects]


def one(planned: ClusterPlan, kind: str, name: str) -> dict[str, Any]:
    (found,) = (o for o in planned.objects if o["kind"] == kind and o["metadata"]["name"] == name)
    return found


def condition(planned: ClusterPlan, kind: str) -> tuple[str, str]:
    (found,) = (c for c in planned.status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"]


def types(planned: ClusterPlan) -> set[str]:
    return {c["type"] for c in planned.status["conditions"]}


def test_a_new_cluster_gets_its_parts_in_the_order_of_their_use() -> None:
    planned = made(cluster())
    assert kinds(planned) == [
        "ServiceAccount/production-broker",
        "Service/production-brokers",
        "Service/production-bootstrap",
        "ConfigMap/production-broker-config",
        "StatefulSet/production-broker",
        "PodDisruptionBudget/production-broker",
    ]
    assert planned.replicas == 3
    assert planned.status["phase"] == "Pending"
    assert condition(planned, "Ready") == ("False", "Starting")


def test_what_becomes_of_samples_is_what_was_looked_at() -> None:
    written = {file.name: file.read_text() for file in GOLDEN.iterdir()}
    words = "run: make manifests; name a changed pod template in CHANGELOG.md, it restarts brokers"
    assert written == golden_files(), words


def test_a_running_cluster_is_ready_and_changes_nothing() -> None:
    wanted = cluster()
    planned = made(wanted, running(template_of(wanted)))
    assert condition(planned, "Ready") == ("True", "Ready")
    assert planned.status["phase"] == "Running"
    assert planned.status["brokerCount"] == 3
    assert planned.deletions == []
    assert planned.look_again_s == 60


def test_a_second_plan_after_the_first_tells_nothing_new() -> None:
    wanted = cluster()
    seen = running(template_of(wanted))
    first = made(wanted, seen)
    later = made(cluster(status=first.status), seen)
    assert later.status == first.status
    assert later.changes == []


def test_a_new_template_reaches_no_broker_at_first() -> None:
    planned = made(cluster(config={"flushIntervalMs": 100}), running("another"))
    spec = one(planned, "StatefulSet", "production-broker")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"partition": 3}
    assert condition(planned, "RolledOut") == ("False", "Rolling")
    assert planned.status["phase"] == "Updating"


def test_a_restart_is_another_template_and_more_brokers_are_not() -> None:
    assert template_of(cluster()) != template_of(cluster(annotations={"kafscale.io/restart": "1"}))
    assert template_of(cluster()) == template_of(cluster(brokers={"replicas": 9}))


def test_a_paused_cluster_is_only_told_about() -> None:
    planned = made(cluster(annotations={"kafscale.io/paused": "true"}))
    assert planned.objects == []
    assert planned.deletions == []
    assert condition(planned, "Paused") == ("True", "Paused")


def test_a_stopped_cluster_has_no_broker_and_keeps_the_rest() -> None:
    wanted = cluster(annotations={"kafscale.io/stopped": "true"})
    planned = made(wanted, running(template_of(wanted), has_budget=True, has_autoscaler=True))
    assert planned.replicas == 0
    assert {part.kind for part in planned.deletions} == {
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
    }
    assert planned.status["phase"] == "Stopped"
    assert "StatefulSet/production-broker" in kinds(planned)


def test_an_autoscaler_owns_the_number_of_brokers() -> None:
    wanted = cluster(brokers={"replicas": 3, "autoscaling": {"maxReplicas": 9}})
    assert made(wanted).replicas == 3
    seen = running(template_of(wanted))
    assert made(wanted, seen).replicas == 3  # until there is an autoscaler
    seen = running(template_of(wanted), has_autoscaler=True)
    planned = made(wanted, seen)
    assert planned.replicas is None
    spec = one(planned, "HorizontalPodAutoscaler", "production-broker")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 9)
    assert [metric["type"] for metric in spec["metrics"]] == ["Resource"]


def test_without_autoscaling_its_autoscaler_goes() -> None:
    planned = made(cluster(), running(has_autoscaler=True))
    assert [part.kind for part in planned.deletions] == ["HorizontalPodAutoscaler"]
    assert planned.replicas == 3


def test_the_brokers_manifest_never_says_how_many_there_are() -> None:
    spec = one(made(cluster()), "StatefulSet", "production-broker")["spec"]
    assert "replicas" not in spec


def test_refused_settings_start_no_broker() -> None:
    planned = made(cluster(), SeenCluster(config_problem="topics.autoCreat: no such setting"))
    assert "StatefulSet/production-broker" not in kinds(planned)
    assert condition(planned, "Ready") == ("False", "SettingRefused")
    assert planned.status["phase"] == "Failed"


def test_caches_larger_than_the_memory_are_told() -> None:
    planned = made(cluster(config={"cacheSize": "4Gi"}))
    assert condition(planned, "ConfigAccepted") == ("False", "MemoryTooSmall")
    assert "StatefulSet/production-broker" in kinds(planned)


def test_etcd_of_the_operator_is_shared_by_prefix() -> None:
    defaults = msgspec.structs.replace(DEFAULTS, etcd_endpoints=("http://shared:2379",))
    planned = made(cluster(etcd={}), defaults=defaults)
    assert planned.status["etcd"] == {
        "source": "Operator",
        "endpoints": ["http://shared:2379"],
        "prefix": "/team/production",
    }
    env = one(planned, "StatefulSet", "production-broker")["spec"]["template"]["spec"][
        "containers"
    ][0]["env"]
    assert {"name": "KAFSCALE_ETCD_PREFIX", "value": "/team/production"} in env


def test_without_any_etcd_one_is_made() -> None:
    planned = made(cluster(etcd={}))
    assert kinds(planned)[:4] == [
        "ServiceAccount/production-broker",
        "Service/production-etcd",
        "PodDisruptionBudget/production-etcd",
        "StatefulSet/production-etcd",
    ]
    policy = one(planned, "NetworkPolicy", "production-etcd")["spec"]
    assert policy["podSelector"]["matchLabels"]["app"] == "kafscale-etcd"
    assert condition(planned, "EtcdAvailable") == ("False", "NoQuorum")
    assert "StatefulSet/production-broker" not in kinds(planned)  # it could not start
    seen = SeenCluster(etcd_pods=tuple(pod(n, component="etcd", ready=n < 2) for n in range(3)))
    planned = made(cluster(etcd={}), seen)
    assert condition(planned, "EtcdAvailable") == ("True", "QuorumReady")
    assert "StatefulSet/production-broker" in kinds(planned)


def test_another_etcd_is_refused_without_a_word_from_a_person() -> None:
    before = {"etcd": {"source": "Managed", "endpoints": ["http://own:2379"]}}
    planned = made(cluster(status=before))
    assert condition(planned, "EtcdAvailable") == ("False", "EtcdSourceChanged")
    assert "StatefulSet/production-broker" not in kinds(planned)
    assert planned.status["etcd"]["source"] == "Managed"
    accepted = cluster(status=before, annotations={"kafscale.io/accept-metadata-loss": "true"})
    assert made(accepted).status["etcd"]["source"] == "Spec"


def test_the_etcd_of_kubernetes_is_refused() -> None:
    planned = made(cluster(etcd={"useKubeEtcd": True}))
    assert condition(planned, "EtcdAvailable") == ("False", "KubeEtcdRefused")


@pytest.mark.parametrize(
    ("trouble", "reason", "words"),
    [
        ({"waiting": ("ImagePullBackOff", "no such image")}, "ImagePull", "no such image"),
        (
            {"waiting": ("CreateContainerConfigError", 'secret "s" not found')},
            "SecretMissing",
            'secret "s" not found',
        ),
        (
            {"ended": "line\nkafscale: the bucket must exist\n"},
            "CrashLooping",
            "the bucket must exist",
        ),
    ],
)
def test_a_broker_that_does_not_run_says_why(
    trouble: dict[str, Any], reason: str, words: str
) -> None:
    seen = SeenCluster(brokers=stateful_set(), pods=(pod(0, ready=False, **trouble),))
    planned = made(cluster(), seen)
    assert condition(planned, "BrokersReady") == ("False", reason)
    (found,) = (c for c in planned.status["conditions"] if c["type"] == "Ready")
    assert words in found["message"]


def test_a_store_that_is_away_is_told_in_the_brokers_own_words() -> None:
    said = facts(1, reasons=("store: the object store is unavailable",))
    seen = SeenCluster(brokers=stateful_set(), pods=(pod(0, ready=False),), facts=said)
    assert condition(made(cluster(), seen), "BrokersReady") == ("False", "StoreUnavailable")


def test_snapshots_are_told_only_where_they_are_made() -> None:
    assert "EtcdSnapshot" not in types(made(cluster()))
    wanted = cluster(etcd={"snapshot": {"s3": {"bucket": "snapshots"}}})
    planned = made(wanted, SeenCluster(snapshots=SnapshotFacts(last_success_s=NOW_MS / 1000)))
    assert "CronJob/production-etcd-snapshot" in kinds(planned)
    assert condition(planned, "EtcdSnapshot") == ("True", "SnapshotHealthy")
    assert condition(planned, "EtcdSnapshotAccess") == ("True", "AccessOk")
    stale = SnapshotFacts(last_success_s=NOW_MS / 1000 - 3 * 3600)
    planned = made(wanted, SeenCluster(snapshots=stale))
    assert condition(planned, "EtcdSnapshot") == ("False", "Stale")
    denied = SnapshotFacts(failure="the bucket refused it", reason="AccessDenied")
    planned = made(wanted, SeenCluster(snapshots=denied))
    assert condition(planned, "EtcdSnapshotAccess") == ("False", "AccessDenied")


def test_a_new_place_for_snapshots_is_tried_as_soon_as_brokers_run() -> None:
    def tried(bucket: str, seen: SeenCluster) -> list[str]:
        wanted = cluster(etcd={"snapshot": {"s3": {"bucket": bucket}}})
        return [name for name in kinds(made(wanted, seen)) if name.startswith("Job/")]

    assert tried("snapshots", SeenCluster()) == []  # an etcd without rows is not worth one
    (first,) = tried("snapshots", running())
    assert first.startswith("Job/production-etcd-snapshot-")
    assert tried("snapshots", running()) == [first]
    assert tried("another", running()) != [first]


def test_a_first_snapshot_is_overdue_when_it_was_awaited_for_two_periods() -> None:
    wanted = {"snapshot": {"s3": {"bucket": "snapshots"}}}
    told: dict[str, Any] = {}
    for hours, reason in (
        (0, "NotYet"),
        (2, "NotYet"),
        (3, "NeverSucceeded"),
        (4, "NeverSucceeded"),
    ):
        now_ms = NOW_MS + 3_600_000 * hours
        planned = plan(cluster(etcd=wanted, status=told), SeenCluster(), DEFAULTS, now_ms)
        told = planned.status
        assert condition(planned, "EtcdSnapshot")[1] == reason


def test_the_status_says_when_the_last_snapshot_was_made() -> None:
    wanted = cluster(etcd={"snapshot": {"s3": {"bucket": "snapshots"}}})
    facts_ = SnapshotFacts(last_success_s=NOW_MS / 1000)
    planned = made(wanted, SeenCluster(snapshots=facts_))
    assert planned.status["etcd"]["lastSnapshot"] == "2023-11-14T22:13:20Z"
    later = cluster(etcd={"snapshot": {"s3": {"bucket": "snapshots"}}}, status=planned.status)
    assert made(later).status["etcd"]["lastSnapshot"] == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("0 * * * *", 3600),
        ("*/15 * * * *", 900),
        ("*/15,50 * * * *", 3600),  # more often, in truth
        ("30 */6 * * *", 6 * 3600),
        ("0 3 * * *", 86400),
        ("0 3 * * 1", 7 * 86400),
        ("@daily", 86400),
        ("@every 1h30m", 5400),
    ],
)
def test_a_schedule_comes_round_as_often_as_it_says(schedule: str, seconds: float) -> None:
    assert health.period_s(schedule) == seconds


def job(name: str, **status: Any) -> dict[str, KubeJob]:
    return {name: msgspec.convert({"metadata": {"name": name}, "status": status}, KubeJob)}


def test_a_restore_stops_the_brokers_runs_a_job_and_starts_them_again() -> None:
    wanted = cluster(etcd={**ETCD, "restore": {"request": "monday"}})
    name = restore_name(wanted, "monday")
    planned = made(wanted, running(template_of(cluster())))
    assert planned.replicas == 0
    assert f"Job/{name}" not in kinds(planned)  # brokers still run
    planned = made(wanted, SeenCluster(brokers=stateful_set(replicas=0)))
    spec = one(planned, "Job", name)["spec"]["template"]["spec"]
    assert "initContainers" not in spec
    (container,) = spec["containers"]
    assert container["args"] == ["recover", "--from-bucket"]
    env = {row["name"]: row.get("value") for row in container["env"]}
    assert env["KAFSCALE_CONFIG"] == "/etc/kafscale/broker.yaml"  # with the brokers' settings
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp", "/etc/kafscale"]
    assert condition(planned, "Restoring") == ("True", "Restoring")
    done = SeenCluster(brokers=stateful_set(replicas=0), jobs=job(name, succeeded=1))
    before = planned.status
    planned = made(cluster(etcd={**ETCD, "restore": {"request": "monday"}}, status=before), done)
    assert planned.replicas == 3
    assert planned.status["restored"] == "monday"
    assert condition(planned, "Restoring") == ("False", "Restored")
    told = {turn.condition.reason: turn.is_bad for turn in planned.changes}
    assert told["Restored"] is False  # an event, and no warning


def test_a_restore_from_a_snapshot_loads_it_before_it_catches_up_with_the_bucket() -> None:
    s3 = {"bucket": "kept", "credentialsSecretRef": "others"}
    asked = {"request": "monday", "from": "Snapshot", "key": "etcd/production/1.db"}
    wanted = cluster(etcd={"snapshot": {"s3": s3}, "restore": asked})
    name = restore_name(wanted, "monday")
    stopped = SeenCluster(brokers=stateful_set(replicas=0))
    planned = made(wanted, stopped)
    assert f"Job/{name}" not in kinds(planned)  # no member of etcd answers yet
    members = tuple(pod(number, component="etcd") for number in range(3))
    planned = made(wanted, msgspec.structs.replace(stopped, etcd_pods=members))
    spec = one(planned, "Job", name)["spec"]["template"]["spec"]
    (load,), (recover,) = spec["initContainers"], spec["containers"]
    assert "--bucket=kept" in load["args"]
    assert "--prefix=etcd/production" in load["args"]
    assert "--key=etcd/production/1.db" in load["args"]
    assert "others" in str(load["env"])
    assert recover["args"] == ["recover", "--from-bucket", "--force"]


def test_a_restore_that_failed_starts_no_broker_and_says_why() -> None:
    wanted = cluster(etcd={**ETCD, "restore": {"request": "monday"}})
    failed = [{"type": "Failed", "status": "True"}]
    jobs = job(restore_name(wanted, "monday"), failed=4, conditions=failed)
    seen = SeenCluster(
        brokers=stateful_set(replicas=0), jobs=jobs, restore_failure="the bucket is empty"
    )
    planned = made(wanted, seen)
    assert planned.replicas == 0
    assert condition(planned, "Restoring") == ("True", "RestoreFailed")
    assert condition(planned, "Ready") == ("False", "RestoreFailed")
    assert "the bucket is empty" in str(planned.status["conditions"])
    again = cluster(etcd={**ETCD, "restore": {"request": "tuesday"}})
    assert f"Job/{restore_name(again, 'tuesday')}" in kinds(made(again, seen))


def test_an_idle_cluster_sends_clients_to_the_activator() -> None:
    spec = {"replicas": 1, "idleAfter": "5m"}
    idle = cluster(brokers=spec, annotations={"kafscale.io/idle": "now"})
    planned = made(idle, SeenCluster(brokers=stateful_set(replicas=1), has_activator=True))
    assert planned.replicas == 0
    selector = one(planned, "Service", "production-bootstrap")["spec"]["selector"]
    assert selector["app"] == "kafscale-activator"
    awake = cluster(brokers=spec)
    planned = made(awake, SeenCluster(brokers=stateful_set(replicas=0), has_activator=True))
    selector = one(planned, "Service", "production-bootstrap")["spec"]["selector"]
    assert selector["app"] == "kafscale-activator"  # until a broker is ready
    assert planned.replicas == 1
    seen = SeenCluster(brokers=stateful_set(replicas=1), pods=(pod(0),), has_activator=True)
    selector = one(made(awake, seen), "Service", "production-bootstrap")["spec"]["selector"]
    assert selector["app"] == "kafscale-broker"


SNAPSHOTS = {"snapshot": {"s3": {"bucket": "snapshots"}}}


def test_the_managed_etcd_sleeps_when_the_last_broker_has_gone() -> None:
    spec = {"replicas": 1, "idleAfter": "5m"}
    idle = cluster(brokers=spec, etcd=SNAPSHOTS, annotations={"kafscale.io/idle": "now"})

    def members(wanted: KafscaleCluster, **seen: Any) -> int:
        planned = made(wanted, SeenCluster(brokers=stateful_set(replicas=1), **seen))
        found: int = one(planned, "StatefulSet", "production-etcd")["spec"]["replicas"]
        cron = one(planned, "CronJob", "production-etcd-snapshot")["spec"]
        assert cron["suspend"] is (found == 0)  # a snapshot needs members
        return found

    assert members(idle, pods=(pod(0),)) == 3  # it hands over, and says goodbye in etcd
    assert members(idle) == 0
    at_work = msgspec.convert({"metadata": {"name": "j"}, "status": {"active": 1}}, KubeJob)
    assert members(idle, jobs={"j": at_work}) == 3
    asked = {**SNAPSHOTS, "restore": {"request": "monday"}}
    marks = {"kafscale.io/idle": "now"}
    assert members(cluster(brokers=spec, etcd=asked, annotations=marks)) == 3
    assert members(cluster(brokers=spec, etcd=SNAPSHOTS)) == 3
    by_hand = {"kafscale.io/stopped": "true"}
    assert members(cluster(brokers=spec, etcd=SNAPSHOTS, annotations=by_hand)) == 3


def test_a_sleeping_etcd_is_no_trouble() -> None:
    spec = {"replicas": 1, "idleAfter": "5m"}
    idle = cluster(brokers=spec, etcd=SNAPSHOTS, annotations={"kafscale.io/idle": "now"})
    old = SnapshotFacts(last_success_s=NOW_MS / 1000 - 86400)
    planned = made(idle, SeenCluster(brokers=stateful_set(replicas=0), snapshots=old))
    assert condition(planned, "Ready") == ("False", "Idle")
    assert condition(planned, "EtcdAvailable") == ("Unknown", "Asleep")
    assert condition(planned, "EtcdSnapshot") == ("Unknown", "Asleep")
    assert not [turn for turn in planned.changes if turn.is_bad and "Etcd" in turn.condition.type]


def test_brokers_wake_after_their_etcd_and_snapshots_have_their_time_again() -> None:
    awake = cluster(brokers={"replicas": 1, "idleAfter": "5m"}, etcd=SNAPSHOTS)
    old = SnapshotFacts(last_success_s=NOW_MS / 1000 - 86400)
    asleep = SeenCluster(brokers=stateful_set(replicas=0), snapshots=old)
    assert made(awake, asleep).replicas == 0
    just_made = "2023-11-14T22:13:00Z"
    quorum = tuple(member(number, just_made) for number in (0, 1))
    planned = made(awake, msgspec.structs.replace(asleep, etcd_pods=quorum))
    assert planned.replicas == 1
    assert condition(planned, "EtcdSnapshot") == ("True", "SnapshotHealthy")
    long_ago = tuple(member(number, "2023-11-13T00:00:00Z") for number in (0, 1))
    planned = made(awake, msgspec.structs.replace(asleep, etcd_pods=long_ago))
    assert condition(planned, "EtcdSnapshot") == ("False", "Stale")


def member(number: int, since: str) -> Pod:
    found = pod(number, component="etcd")
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, creation_timestamp=since)
    )


def service(number: int, node_port: int) -> Service:
    port = {"name": "external", "port": 9094, "nodePort": node_port}
    name = f"production-external-{number}"
    return msgspec.convert({"metadata": {"name": name}, "spec": {"ports": [port]}}, Service)


def test_brokers_wait_for_their_addresses_outside() -> None:
    external = {"type": "NodePort", "hostTemplate": "b{ordinal}.example.org"}
    wanted = cluster(brokers={"replicas": 2, "external": external})
    planned = made(wanted)
    assert condition(planned, "ExternalReady") == ("False", "WaitingForAddress")
    assert "StatefulSet/production-broker" not in kinds(planned)
    given = {f"production-external-{n}": service(n, 30000 + n) for n in range(2)}
    planned = made(wanted, SeenCluster(services=given))
    files = one(planned, "ConfigMap", "production-broker-config")["data"]
    assert "EXTERNAL://b1.example.org:30001" in files["production-broker-1.yaml"]
    assert condition(planned, "ExternalReady") == ("True", "Ready")
    told = planned.status["externalBootstrap"]
    assert told == "b0.example.org:30000,b1.example.org:30001"


def balanced(name: str, **address: str) -> dict[str, Service]:
    found = {
        "metadata": {"name": name},
        "spec": {"ports": [{"name": "external", "port": 9094, "nodePort": 31000}]},
        "status": {"loadBalancer": {"ingress": [address] if address else []}},
    }
    return {name: msgspec.convert(found, Service)}


def test_load_balancers_have_the_addresses_that_the_cloud_gave_them() -> None:
    wanted = cluster(brokers={"replicas": 2, "external": {"type": "LoadBalancer"}})
    first = balanced("production-external-0", ip="203.0.113.7")
    waiting = {**first, **balanced("production-external-1")}
    planned = made(wanted, SeenCluster(services=waiting))
    assert condition(planned, "ExternalReady") == ("False", "WaitingForAddress")
    assert "StatefulSet/production-broker" not in kinds(planned)
    assert planned.status["externalBootstrap"] == "203.0.113.7:9094"
    given = {**first, **balanced("production-external-1", hostname="b1.example.org")}
    planned = made(wanted, SeenCluster(services=given))
    files = one(planned, "ConfigMap", "production-broker-config")["data"]
    assert "EXTERNAL://203.0.113.7:9094" in files["production-broker-0.yaml"]
    assert "EXTERNAL://b1.example.org:9094" in files["production-broker-1.yaml"]
    assert condition(planned, "ExternalReady") == ("True", "Ready")
    given |= balanced("production-external", ip="203.0.113.9")
    assert made(wanted, SeenCluster(services=given)).status["externalBootstrap"] == (
        "203.0.113.9:9094"
    )


def test_one_more_broker_waits_for_its_address_outside() -> None:
    wanted = cluster(brokers={"replicas": 3, "external": {"type": "LoadBalancer"}})
    given: dict[str, Service] = {}
    for number in range(2):
        given |= balanced(f"production-external-{number}", ip=f"203.0.113.{number}")
    waiting = {**given, **balanced("production-external-2")}
    two = SeenCluster(brokers=stateful_set(replicas=2), services=waiting)
    assert made(wanted, two).replicas == 2  # it would tell clients outside a wrong one
    known = {**given, **balanced("production-external-2", ip="203.0.113.2")}
    assert made(wanted, msgspec.structs.replace(two, services=known)).replicas == 3
    # An address that the cloud takes away is no reason to take a broker away.
    three = SeenCluster(brokers=stateful_set(replicas=3), services=waiting)
    assert made(wanted, three).replicas == 3


@example(name="x" * 38)
@given(name=st.from_regex(r"[a-z]([a-z0-9-]{0,36}[a-z0-9])?", fullmatch=True))
def test_no_name_is_longer_than_kubernetes_takes(name: str) -> None:
    spec = {
        "brokers": {"idleAfter": "5m", "external": {"type": "LoadBalancer"}},
        "etcd": {"snapshot": {"s3": {"bucket": "b"}}},
    }
    planned = made(cluster(name=name, **spec))
    for manifest in planned.objects:
        # Pods of a set and jobs of a schedule have the name with a number behind it.
        most = 52 if manifest["kind"] in ("StatefulSet", "CronJob") else 63
        assert len(manifest["metadata"]["name"]) <= most
        assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())


def test_times_that_the_server_leaves_out_are_not_read() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": None, "lastProbeTime": None}
    found = {"metadata": {"name": "c-broker-0"}, "status": {"conditions": [ready]}}
    assert msgspec.convert(found, Pod).is_ready


def test_brokers_are_open_to_all_pods_unless_the_spec_names_who_may_come() -> None:
    assert "NetworkPolicy/production-broker" not in kinds(made(cluster()))
    peers = [{"namespaceSelector": {"matchLabels": {"team": "shop"}}}]
    external = {"type": "LoadBalancer"}
    wanted = cluster(brokers={"accessFrom": peers, "external": external})
    rules = one(made(wanted), "NetworkPolicy", "production-broker")["spec"]["ingress"]
    assert peers[0] in rules[0]["from"]
    assert [rule["ports"][0]["port"] for rule in rules] == [9092, 9093, 9094]
    gone = made(cluster(), SeenCluster(has_policy=True)).deletions
    assert ("NetworkPolicy", "production-broker") in {(part.kind, part.name) for part in gone}

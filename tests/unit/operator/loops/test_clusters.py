"""Carrying out a plan: what is sent, what is not sent again, and what is told when that fails."""

from typing import Any

import aiohttp
import msgspec
import pytest

from kafscale.operator.brokers import clients as broker_clients
from kafscale.operator.brokers import pages as broker_pages
from kafscale.operator.brokers.clients import BrokerClients
from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.loops.clusters import ClusterLoop
from kafscale.operator.loops.events import Events
from kafscale.operator.loops.observation import PARTS, Observation
from kafscale.operator.metrics import OperatorMetrics
from kafscale.operator.parts import jobs
from kafscale.operator.passwords import Passwords
from kafscale.operator.planning.seen_cluster import SeenBroker
from kafscale.testing.clock import ManualClock, SeededDice
from tests.unit.operator.examples import DEFAULTS
from tests.unit.operator.fake_kube import Copies, FakeKube

KEY = ("team", "production")


class Loop:
    """A control loop on a fake server."""

    def __init__(self) -> None:
        self.kube, self.clock = FakeKube(), ManualClock()
        informers: Any = {
            kind: Copies(self.kube, kind)
            for kind in ("KafscaleCluster", "KafscaleTopic", "Node", *PARTS)
        }
        self.metrics = OperatorMetrics()
        http: Any = None  # pages are faked below
        passwords = Passwords(self.kube, "kafscale", SeededDice())
        self.clients = BrokerClients(passwords)
        self.loop = ClusterLoop(
            self.kube,
            http,
            Observation(informers),
            DEFAULTS,
            self.clock,
            Events(self.kube, self.clock, SeededDice(), "test"),
            self.metrics,
            passwords,
            self.clients,
            {},
        )

    def cluster(self, **spec: Any) -> None:
        whole = {
            "brokers": {},
            "s3": {"bucket": "data"},
            "etcd": {"endpoints": ["http://etcd:2379"]},
            **spec,
        }
        metadata = {"name": KEY[1], "namespace": KEY[0], "generation": 1}
        metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
        self.kube.put({"kind": "KafscaleCluster", "metadata": metadata, "spec": whole})

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.kube.objects["KafscaleCluster", *KEY]["status"]
        return found

    def sent(self, *verbs: str) -> list[tuple[str, str, str]]:
        return [call for call in self.kube.calls if call[0] in verbs]


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    async def no_pages(http: aiohttp.ClientSession, pods: Any) -> dict[str, SeenBroker]:
        return {}

    monkeypatch.setattr(broker_pages, "read_facts", no_pages)
    return Loop()


async def test_a_second_look_sends_nothing(loop: Loop) -> None:
    loop.cluster()
    await loop.loop.look(KEY)
    assert len(loop.sent("apply")) == 7  # six objects, and the number of brokers
    assert loop.status()["phase"] == "Pending"
    await loop.loop.look(KEY)
    loop.kube.calls.clear()
    await loop.loop.look(KEY)
    assert loop.sent("apply", "status", "create", "delete") == []


async def test_what_another_writer_changed_is_put_right(loop: Loop) -> None:
    loop.cluster()
    await loop.loop.look(KEY)
    service = loop.kube.objects["Service", "team", "production-bootstrap"]
    service["spec"]["selector"] = {"app": "another"}
    await loop.loop.look(KEY)
    live = loop.kube.objects["Service", "team", "production-bootstrap"]
    assert live["spec"]["selector"]["app"] == "kafscale-broker"


async def test_a_part_that_is_refused_fails_the_look_and_the_status_is_told(loop: Loop) -> None:
    loop.cluster()
    apply = loop.kube.apply

    async def refuse(manifest: Any, manager: str = "") -> dict[str, Any]:
        if manifest["kind"] == "ConfigMap":
            raise KubeError("forbidden", 403)
        return await apply(manifest, manager)

    loop.kube.apply = refuse  # type: ignore[method-assign]
    with pytest.raises(KubeError):
        await loop.loop.look(KEY)
    assert loop.status()["phase"] == "Pending"


async def test_a_cluster_that_is_gone_is_not_looked_at_again(loop: Loop) -> None:
    assert await loop.loop.look(KEY) is None
    assert loop.kube.calls == []


async def test_refused_settings_make_no_broker_and_an_event(loop: Loop) -> None:
    loop.cluster(config={"broker": {"no.such": "1"}})
    await loop.loop.look(KEY)
    assert ("StatefulSet", "team", "production-broker") not in loop.kube.objects
    notes = [one["note"] for (kind, _, _), one in loop.kube.objects.items() if kind == "Event"]
    assert any("no.such" in note for note in notes)


SNAPSHOTS = {"snapshot": {"s3": {"bucket": "kept"}}}


def snapshot_job(loop: Loop, name: str, bucket: str, made: str, **status: Any) -> None:
    etcd: Any = {"snapshot": {"s3": {"bucket": bucket}}}
    metadata = {"name": KEY[1], "namespace": KEY[0]}
    spec = {"brokers": {}, "s3": {"bucket": "data"}, "etcd": etcd}
    cluster = msgspec.convert({"metadata": metadata, "spec": spec}, KafscaleCluster)
    assert cluster.spec.etcd.snapshot is not None
    target = jobs.snapshot_target(cluster, cluster.spec.etcd.snapshot)
    labels = {"app": "kafscale-etcd-snapshot", "cluster": KEY[1], jobs.TARGET: target}
    metadata |= {"name": name, "labels": labels, "creationTimestamp": made}  # type: ignore[dict-item]
    loop.kube.put({"kind": "Job", "metadata": metadata, "status": status})


async def test_snapshots_of_another_bucket_say_nothing_about_this_one(loop: Loop) -> None:
    loop.cluster(etcd=SNAPSHOTS)
    done = "2026-01-01T00:00:10Z"
    snapshot_job(loop, "a", "kept", "2026-01-01T00:00:00Z", succeeded=1, completionTime=done)
    snapshot_job(loop, "b", "wrong", "2026-01-01T01:00:00Z", failed=1)
    await loop.loop.look(KEY)
    assert loop.status()["etcd"]["lastSnapshot"] == done
    shown = loop.metrics.registry.render().decode()
    assert 'etcd_snapshot_success{namespace="team",cluster="production"} 1' in shown
    snapshot_job(loop, "c", "kept", "2026-01-01T02:00:00Z", failed=1)
    await loop.loop.look(KEY)
    shown = loop.metrics.registry.render().decode()
    assert 'etcd_snapshot_success{namespace="team",cluster="production"} 0' in shown


async def test_alarms_go_by_what_is_wanted(loop: Loop) -> None:
    loop.clock.set_wall_ms(1_767_225_600_000)  # when the cluster was made
    loop.cluster(etcd=SNAPSHOTS)
    await loop.loop.look(KEY)
    shown = loop.metrics.registry.render().decode()
    assert 'cluster_ready{namespace="team",cluster="production"} 0' in shown
    assert 'etcd_snapshot_stale{namespace="team",cluster="production"} 0' in shown
    loop.clock.set_wall_ms(1_767_225_600_000 + 3 * 3600 * 1000)
    await loop.loop.look(KEY)
    shown = loop.metrics.registry.render().decode()
    assert 'etcd_snapshot_stale{namespace="team",cluster="production"} 1' in shown
    # A cluster that was stopped by a person, and makes no snapshots, is no reason for an alarm.
    loop.cluster()
    stop = {"annotations": {"kafscale.io/stopped": "true"}}
    await loop.kube.merge("KafscaleCluster", *KEY, {"metadata": stop})
    await loop.loop.look(KEY)
    shown = loop.metrics.registry.render().decode()
    assert 'cluster="production"' not in shown


async def test_a_cluster_that_goes_takes_no_figures_of_its_namesake_along(loop: Loop) -> None:
    loop.metrics.ready.labels("other", KEY[1]).set(1)
    loop.metrics.ready.labels(*KEY).set(1)
    await loop.loop.look(KEY)
    shown = loop.metrics.registry.render().decode()
    assert 'namespace="other"' in shown
    assert 'namespace="team"' not in shown


async def test_the_operator_does_not_take_itself_for_a_client(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.cluster(brokers={"replicas": 1, "idleAfter": "5m"})
    for component in ("broker", "activator"):
        labels = {"app": f"kafscale-{component}", "cluster": KEY[1]}
        metadata = {"name": f"production-{component}-0", "namespace": KEY[0], "labels": labels}
        ready = {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        loop.kube.put({"kind": "Pod", "metadata": metadata, "status": ready})
    connections = 0

    async def pages(http: aiohttp.ClientSession, pods: Any) -> dict[str, SeenBroker]:
        return {"production-broker-0": SeenBroker(connections=connections)}

    monkeypatch.setattr(broker_pages, "read_facts", pages)
    monkeypatch.setattr(broker_clients, "open_admin", lambda settings: None)
    cluster = msgspec.convert(loop.kube.objects["KafscaleCluster", *KEY], KafscaleCluster)
    await loop.loop.look(KEY)
    loop.clock.advance_ms(200_000)
    async with loop.clients.connect(cluster):
        connections = 1
        await loop.loop.look(KEY)
    connections = 0
    loop.clock.advance_ms(200_000)
    await loop.loop.look(KEY)
    assert (
        "kafscale.io/idle" in loop.kube.objects["KafscaleCluster", *KEY]["metadata"]["annotations"]
    )


async def test_a_pod_on_a_dead_node_is_deleted_at_once(loop: Loop) -> None:
    loop.cluster()
    labels = {"app": "kafscale-broker", "cluster": "production"}
    metadata = {"name": "production-broker-0", "namespace": "team", "labels": labels}
    metadata |= {"uid": "p", "deletionTimestamp": "2020-01-01T00:00:00Z"}
    loop.kube.put({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "gone"}})
    await loop.loop.look(KEY)
    assert loop.sent("delete") == [("delete", "Pod", "production-broker-0")]

"""What a real API server says to our definitions, objects and rights. `make kube` builds it."""

import asyncio
import copy
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kafscale.operator.installation import manifests
from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kube.client import SCALE_MANAGER, Kube
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.resources import RESOURCES
from kafscale.operator.planning.differences import contains
from kafscale.operator.planning.plan import plan
from kafscale.operator.planning.seen_cluster import SeenCluster
from tests.support.kubernetes.real_api import RealApi
from tests.support.maven import Unavailable
from tests.support.ports import free_port
from tests.unit.operator.examples import DEFAULTS, NOW_MS

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

SAMPLES = Path(__file__).parents[2] / "deploy/samples"
NAMESPACE = "kafscale"
WITHIN_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApi]:
    try:
        api = RealApi(tmp_path_factory.mktemp("api"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    with api:
        yield api


@pytest.fixture
async def kube(server: RealApi) -> AsyncIterator[Kube]:
    async with Kube(server.access()) as client:
        await eventually(client)
        yield client


async def eventually(kube: Kube) -> None:
    """Install the operator's definitions and rights, and wait until they are served."""
    for _ in range(WITHIN_S * 2):
        try:
            for manifest in manifests(NAMESPACE, "kafscale:0.1.0"):
                await kube.apply(manifest)
            await kube.list_all("KafscaleCluster")
            await kube.list_all("KafscaleTopic")
        except KubeError as problem:
            if problem.status not in (0, 403, 404, 500, 503):
                raise
            await asyncio.sleep(0.5)
        else:
            return
    raise AssertionError("the API server does not serve our resources")


def sample(file: str, **changed: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SAMPLES / f"{file}.yaml").read_text())
    found["metadata"].update(changed)
    if file == "cluster":  # brokers are planned at once where no etcd has to be made first
        found["spec"]["etcd"] = {"endpoints": ["http://etcd:2379"]}
    return found


async def refused(kube: Kube, manifest: dict[str, Any]) -> str:
    with pytest.raises(KubeError) as problem:
        await kube.apply(manifest)
    return str(problem.value)


async def test_samples_are_accepted_with_their_defaults(kube: Kube) -> None:
    for file in SAMPLES.iterdir():
        await kube.apply(yaml.safe_load(file.read_text()))
    small = sample("cluster", name="small")
    small["spec"] = {"brokers": {}, "s3": {"bucket": "b"}}
    made = (await kube.apply(small))["spec"]
    assert made["brokers"]["replicas"] == 3
    assert made["brokers"]["resources"]["limits"]["memory"] == "4Gi"
    assert made["config"]["flushIntervalMs"] == 500
    assert made["s3"]["region"] == "us-east-1"
    assert made["etcd"]["useKubeEtcd"] is False


async def test_rules_refuse_what_could_not_run(kube: Kube) -> None:
    await kube.apply(sample("cluster", name="ruled"))
    other = sample("cluster", name="ruled")
    other["spec"]["s3"]["bucket"] = "another"
    assert "the bucket is the cluster" in await refused(kube, other)
    assert "at most 38" in await refused(kube, sample("cluster", name="x" * 39))
    few = sample("cluster", name="few")
    few["spec"]["brokers"]["autoscaling"] = {"maxReplicas": 2}
    assert "at least replicas" in await refused(kube, few)
    unknown = sample("cluster", name="unknown")
    unknown["spec"]["brokers"]["replica"] = 3
    assert "replica" in await refused(kube, unknown)
    await kube.apply(sample("topic", name="ruled"))
    shrunk = sample("topic", name="ruled")
    shrunk["spec"]["partitions"] = 3
    assert "only become more" in await refused(kube, shrunk)
    twice = sample("topic", name="twice")
    twice["spec"]["config"] = {"retention.ms": "1"}
    assert "fields of its own" in await refused(kube, twice)


async def test_everything_that_is_planned_is_accepted_and_found_as_it_was_applied(
    kube: Kube,
) -> None:
    spec = sample("sleeping-cluster", name="whole")
    spec["spec"]["brokers"]["external"] = {"type": "LoadBalancer"}
    await kube.apply(spec)
    other = sample("cluster", name="other")
    other["spec"]["brokers"]["autoscaling"] = {"produceRequestsPerSecond": 1000}
    other["spec"]["etcd"]["restore"] = {"request": "now"}
    await kube.apply(other)
    checked = set()
    for name in ("whole", "other"):
        found = await kube.get("KafscaleCluster", NAMESPACE, name)
        cluster = msgspec.convert(found, KafscaleCluster)
        for manifest in plan(cluster, SeenCluster(), DEFAULTS, NOW_MS).objects:
            live = await kube.apply(manifest)
            assert contains(live, manifest), manifest
            again = await kube.apply(copy.deepcopy(manifest))
            assert again["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
            checked.add(manifest["kind"])
    assert {"StatefulSet", "CronJob", "Deployment", "Job", "ConfigMap"} <= checked


async def test_the_number_of_brokers_stays_when_the_operator_stops_setting_it(kube: Kube) -> None:
    await kube.apply(sample("cluster", name="scaled"))
    found = await kube.get("KafscaleCluster", NAMESPACE, "scaled")
    cluster = msgspec.convert(found, KafscaleCluster)
    planned = plan(cluster, SeenCluster(), DEFAULTS, NOW_MS).objects
    (brokers,) = (one for one in planned if one["kind"] == "StatefulSet")
    await kube.apply(brokers)
    part = {key: brokers[key] for key in ("apiVersion", "kind")}
    name = {key: brokers["metadata"][key] for key in ("name", "namespace")}
    await kube.apply({**part, "metadata": name, "spec": {"replicas": 5}}, SCALE_MANAGER)
    brokers["spec"]["template"]["metadata"]["annotations"]["more"] = "x"
    live = await kube.apply(brokers)
    assert live["spec"]["replicas"] == 5


async def test_a_status_is_written_apart_from_the_spec(kube: Kube) -> None:
    await kube.apply(sample("cluster", name="told"))
    found = await kube.get("KafscaleCluster", NAMESPACE, "told")
    assert found is not None
    cluster = msgspec.convert(found, KafscaleCluster)
    status = plan(cluster, SeenCluster(), DEFAULTS, NOW_MS).status
    whole = {"apiVersion": found["apiVersion"], "kind": "KafscaleCluster", "status": status}
    written = await kube.apply_status(
        {**whole, "metadata": {"name": "told", "namespace": NAMESPACE}}
    )
    assert written["metadata"]["generation"] == found["metadata"]["generation"]
    assert msgspec.to_builtins(msgspec.convert(written, KafscaleCluster).status) == status


async def test_the_operator_gets_along_with_the_rights_of_its_account(
    kube: Kube, server: RealApi, tmp_path: Path
) -> None:
    await kube.apply(sample("cluster", name="least"))
    await kube.apply(sample("topic", name="least"))
    path = RESOURCES["ServiceAccount"].path(NAMESPACE, "kafscale-operator", "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await kube._ask("create", "ServiceAccount", "POST", path, {}, body)
    server.access(answer["status"]["token"])
    log = tmp_path / "operator.log"
    with log.open("wb") as out:
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kafscale.cli.main", "operator", "run"),
            *("--kubeconfig", str(server.folder / "kubeconfig"), "--namespace", NAMESPACE),
            *("--host", "127.0.0.1", "--port", str(free_port())),
            stdout=out,
            stderr=out,
        )
    try:
        await until(lambda: told(kube, "KafscaleCluster", "least"), log)
        await until(lambda: told(kube, "KafscaleTopic", "least"), log)
        await until(lambda: is_there(kube, "PodDisruptionBudget", "least-broker"), log)
        brokers = await kube.get("StatefulSet", NAMESPACE, "least-broker")
        assert brokers is not None
        assert brokers["spec"]["replicas"] == 3
    finally:
        operator.terminate()
        assert await operator.wait() == 0
    assert "forbidden" not in log.read_text()
    lease = await kube.get("Lease", NAMESPACE, "kafscale-operator")
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")  # given back


async def until(is_so: Callable[[], Awaitable[bool]], log: Path) -> None:
    for _ in range(WITHIN_S * 5):
        if await is_so():
            return
        await asyncio.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])


async def told(kube: Kube, kind: str, name: str) -> bool:
    found = await kube.get(kind, NAMESPACE, name)
    return bool(found and found.get("status", {}).get("conditions"))


async def is_there(kube: Kube, kind: str, name: str) -> bool:
    return await kube.get(kind, NAMESPACE, name) is not None

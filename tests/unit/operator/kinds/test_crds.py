"""The definitions of the resources: fields of the specification, defaults, rules, columns."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kafscale import __version__
from kafscale.operator.brokers.config_check import config_problem
from kafscale.operator.installation import LEASE_RULES, NODE_RULES, RULES, manifests
from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.crds import CLUSTER, RESOURCES, TOPIC, definition, definitions
from kafscale.operator.kinds.topic import KafscaleTopic
from kafscale.operator.kinds.user import KafscaleUser
from kafscale.operator.metrics import OperatorMetrics
from kafscale.operator.passwords import PASSWORD_KEY
from tests.support.chart_files import ALARMS, FIELDS, PLAIN, fields_page, plain_files

CHART = Path(__file__).parents[4] / "deploy/helm/kafscale"


def schema(resource: Any) -> dict[str, Any]:
    (version,) = definition(resource)["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def at(tree: dict[str, Any], path: str) -> dict[str, Any]:
    for name in path.split("."):
        tree = tree["properties"][name]
    return tree


@pytest.mark.parametrize(
    ("resource", "path", "kind", "default"),
    [
        (CLUSTER, "spec.brokers.replicas", "integer", 3),
        (CLUSTER, "spec.brokers.resources.requests.cpu", "string", "500m"),
        (CLUSTER, "spec.brokers.resources.requests.memory", "string", "1Gi"),
        (CLUSTER, "spec.brokers.resources.limits.cpu", "string", "2"),
        (CLUSTER, "spec.brokers.resources.limits.memory", "string", "4Gi"),
        (CLUSTER, "spec.s3.bucket", "string", None),
        (CLUSTER, "spec.s3.region", "string", "us-east-1"),
        (CLUSTER, "spec.s3.endpoint", "string", None),
        (CLUSTER, "spec.s3.credentialsSecretRef", "string", None),
        (CLUSTER, "spec.etcd.endpoints", "array", None),
        (CLUSTER, "spec.etcd.useKubeEtcd", "boolean", False),
        (CLUSTER, "spec.config.segmentBytes", "integer", 104857600),
        (CLUSTER, "spec.config.flushIntervalMs", "integer", 500),
        (CLUSTER, "spec.config.cacheSize", "string", "2Gi"),
        (CLUSTER, "status.phase", "string", None),
        (CLUSTER, "status.brokerCount", "integer", None),
        (CLUSTER, "status.topicCount", "integer", None),
        (CLUSTER, "status.conditions", "array", None),
        (TOPIC, "spec.clusterRef", "string", None),
        (TOPIC, "spec.partitions", "integer", None),
        (TOPIC, "spec.retentionMs", "integer", 604800000),
        (TOPIC, "spec.retentionBytes", "integer", -1),
        (TOPIC, "spec.config", "object", None),
        (TOPIC, "status.phase", "string", None),
        (TOPIC, "status.partitions", "array", None),
    ],
)
def test_fields_of_the_specification_have_their_type_and_default(
    resource: Any, path: str, kind: str, default: object
) -> None:
    found = at(schema(resource), path)
    assert found["type"] == kind
    if path.startswith("spec."):
        assert found.get("default") == default


def every(tree: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, tree)]
    for name, below in tree.get("properties", {}).items():
        found += every(below, f"{path}.{name}")
    if isinstance(tree.get("items"), dict):
        found += every(tree["items"], f"{path}[]")
    return found


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind)
def test_every_schema_is_structural_and_every_field_explained(resource: Any) -> None:
    for path, node in every(schema(resource)):
        assert "type" in node or "x-kubernetes-preserve-unknown-fields" in node, path
        assert not {"$ref", "anyOf", "title"} & node.keys(), path
        if path.startswith((".spec.", ".status.")) and not path.endswith("[]"):
            assert node.get("description"), path
        # A default below an object that is absent would do nothing.
        below = node.get("properties", {}).values()
        has_defaults = any("default" in one for one in below)
        if has_defaults and path.startswith(".spec.") and not path.endswith("[]"):
            is_required = path.rpartition(".")[2] in _required(schema(resource), path)
            is_optional = path.rpartition(".")[2] in OPTIONAL
            assert node.get("default") == {} or is_required or is_optional, path


OPTIONAL = {"security", "autoscaling", "external", "snapshot", "restore"}


def _required(tree: dict[str, Any], path: str) -> list[str]:
    parent = path.rpartition(".")[0].strip(".")
    found: list[str] = at(tree, parent).get("required", [])
    return found


def test_a_cluster_has_status_scale_columns_and_rules() -> None:
    (version,) = definition(CLUSTER)["spec"]["versions"]
    assert version["subresources"]["status"] == {}
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.brokers.replicas"
    assert [one["name"] for one in version["additionalPrinterColumns"]][-1] == "Age"
    spec = at(schema(CLUSTER), "spec")
    assert "oldSelf.s3.bucket" in spec["x-kubernetes-validations"][0]["rule"]
    assert definition(CLUSTER)["spec"]["names"]["shortNames"] == ["kfs"]
    assert definition(TOPIC)["spec"]["names"]["shortNames"] == ["kt"]


def test_the_chart_has_the_same_definitions() -> None:
    for resource, made in zip(RESOURCES, definitions(), strict=True):
        file = CHART / "crds" / f"{resource.plural}.yaml"
        assert yaml.safe_load(file.read_text()) == made, "run: make manifests"


def test_the_chart_gives_the_same_rights() -> None:
    rights = yaml.safe_load((CHART / "files/rights.yaml").read_text())
    assert rights == {"parts": RULES, "nodes": NODE_RULES, "lease": LEASE_RULES}, "make manifests"


def test_the_chart_has_the_same_alarms() -> None:
    for name in ALARMS:
        original = CHART.parents[1] / "prometheus" / name
        assert (CHART / "files" / name).read_bytes() == original.read_bytes(), "make manifests"


def test_the_plain_manifests_are_what_the_command_prints() -> None:
    written = {file.name: file.read_text() for file in PLAIN.iterdir()}
    assert written == plain_files(), "run: make manifests"
    whole = yaml.safe_load(written["kustomization.yaml"])
    found = [one for name in whole["resources"] for one in yaml.safe_load_all(written[name])]
    assert found == manifests("kafscale", f"kafscale:{__version__}")


def test_the_page_of_fields_is_that_of_the_definitions() -> None:
    assert FIELDS.read_text() == fields_page(), "run: make manifests"


@pytest.mark.parametrize("file", sorted((CHART.parents[1] / "samples").iterdir()), ids=str)
def test_samples_name_fields_that_exist(file: Path) -> None:
    sample = yaml.safe_load(file.read_text())
    (resource,) = (one for one in RESOURCES if one.kind == sample["kind"])
    assert unknown(sample["spec"], at(schema(resource), "spec")) == []
    kinds: dict[str, Any] = {
        "KafscaleCluster": KafscaleCluster,
        "KafscaleTopic": KafscaleTopic,
        "KafscaleUser": KafscaleUser,
    }
    read = msgspec.convert(sample, kinds[sample["kind"]])
    if isinstance(read, KafscaleCluster):
        assert config_problem(read) is None


def unknown(given: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """Fields that a schema does not have; an API server would drop or refuse them."""
    if "properties" not in known:
        return []
    found = [name for name in given if name not in known["properties"]]
    for name, value in given.items():
        if isinstance(value, dict) and name in known["properties"]:
            found += unknown(value, known["properties"][name])
    return found


def test_alarms_go_by_series_that_the_operator_has() -> None:
    alerts = yaml.safe_load((CHART.parents[1] / "prometheus/operator-alerts.yml").read_text())
    metrics = OperatorMetrics()
    metrics.sample(clusters=lambda: 0, topics=lambda: 0, queue_depth=lambda: 0, is_leader=lambda: 0)
    for family in (metrics.ready, metrics.snapshot_stale, metrics.snapshot_success):
        family.labels("team", "c").set(1)
    metrics.reconcile_errors.labels("KafscaleCluster").inc()
    page = (CHART.parents[2] / "docs/operating/kubernetes.md").read_text()
    shown = metrics.registry.render().decode()
    for rule in alerts["groups"][0]["rules"]:
        for series in re.findall(r"kafscale_\w+", rule["expr"]):
            assert f"# TYPE {series} " in shown, series
        assert f"### {rule['alert']}\n" in page


def test_every_reason_and_variable_of_the_operator_is_in_the_documents() -> None:
    page = (CHART.parents[2] / "docs/operating/kubernetes.md").read_text()
    package = CHART.parents[2] / "src/kafscale"
    planning = "".join(
        file.read_text() for file in (package / "operator/planning").glob("[hr]*.py")
    )
    reasons = set(re.findall(r'Judgement\("?\w+"?, False, "(\w+)"', planning))
    reasons |= set(re.findall(r'return "(\w+)", f"\{name\}', planning))
    reasons |= set(re.findall(r'^HELD_\w+: Final = "(\w+)"', planning, re.MULTILINE))
    assert len(reasons) > 8
    assert {reason for reason in reasons if f"`{reason}`" not in page} == set()
    cli = (package / "cli/serving/operator.py").read_text()
    variables = set(re.findall(r"KAFSCALE_OPERATOR_\w+", cli))
    assert {name for name in variables if f"`{name}`" not in page} == set()
    counted = (package / "operator/metrics.py").read_text()
    series = set(re.findall(r"kafscale_operator_(\w+)", counted))
    assert {name for name in series if f"`{name}`" not in page} == set()


def test_no_right_reads_secrets_but_the_operators_own() -> None:
    for rule in (*RULES, *NODE_RULES, *LEASE_RULES):
        if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
            assert rule in LEASE_RULES
            assert (rule["verbs"], rule["resourceNames"]) == (["get"], [PASSWORD_KEY])
        assert "*" not in (*rule["resources"], *rule["verbs"], *rule["apiGroups"])


def test_the_manifests_bind_the_rights_to_the_account_of_the_deployment() -> None:
    made = {one["kind"]: one for one in manifests("here", "kafscale:1")}
    account = made["ServiceAccount"]["metadata"]
    (subject,) = made["ClusterRoleBinding"]["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    pod = made["Deployment"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]

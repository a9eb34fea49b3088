"""The definitions of our resources: schemas made from the structs, rules, columns.

Here: a struct becomes the kind of schema that Kubernetes takes: everything in its place (no
references), a type for every value, defaults at every level.
Next door: the structs (cluster.py, topic.py), rules between fields (rules.py).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kafscale.operator.kinds.cluster import GROUP, VERSION, ClusterObjectSpec, ClusterObjectStatus
from kafscale.operator.kinds.rules import RULES
from kafscale.operator.kinds.topic import TopicObjectSpec, TopicObjectStatus
from kafscale.operator.kinds.user import UserObjectSpec, UserObjectStatus

_REF: Final = "#/defs/{name}"
_DATE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


class CustomResource(NamedTuple):
    """One of our resources, and how it is shown."""

    kind: str
    plural: str
    short: str
    spec: type
    status: type
    columns: tuple[tuple[str, str, str], ...]  # name, type, path
    scale: Mapping[str, str] | None = None


CLUSTER: Final = CustomResource(
    "KafscaleCluster",
    "kafscaleclusters",
    "kfs",
    ClusterObjectSpec,
    ClusterObjectStatus,
    (
        ("Phase", "string", ".status.phase"),
        ("Brokers", "integer", ".status.brokerCount"),
        ("Wanted", "integer", ".spec.brokers.replicas"),
        ("Topics", "integer", ".status.topicCount"),
        ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    ),
    {
        "specReplicasPath": ".spec.brokers.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    },
)
TOPIC: Final = CustomResource(
    "KafscaleTopic",
    "kafscaletopics",
    "kt",
    TopicObjectSpec,
    TopicObjectStatus,
    (
        ("Cluster", "string", ".spec.clusterRef"),
        ("Partitions", "integer", ".spec.partitions"),
        ("Phase", "string", ".status.phase"),
        ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    ),
)
USER: Final = CustomResource(
    "KafscaleUser",
    "kafscaleusers",
    "kfu",
    UserObjectSpec,
    UserObjectStatus,
    (
        ("Cluster", "string", ".spec.clusterRef"),
        ("Secret", "string", ".status.secretName"),
        ("Phase", "string", ".status.phase"),
        ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    ),
)
RESOURCES: Final = (CLUSTER, TOPIC, USER)


def definition(resource: CustomResource) -> dict[str, Any]:
    """Give the CustomResourceDefinition."""
    subresources: dict[str, Any] = {"status": {}}
    if resource.scale is not None:
        subresources["scale"] = dict(resource.scale)
    columns = [
        {"name": name, "type": kind, "jsonPath": path} for name, kind, path in resource.columns
    ]
    root: dict[str, Any] = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": schema_of(resource.spec),
            "status": schema_of(resource.status),
        },
    }
    if rules := RULES.get(resource.kind):
        root["x-kubernetes-validations"] = [rule._asdict() for rule in rules]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "kind": resource.kind,
                "shortNames": [resource.short],
                "categories": ["kafscale"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": root},
                    "subresources": subresources,
                    "additionalPrinterColumns": [*columns, _DATE],
                }
            ],
        },
    }


def definitions() -> list[dict[str, Any]]:
    """Give the definitions of all our resources."""
    return [definition(resource) for resource in RESOURCES]


def schema_of(struct: type) -> dict[str, Any]:
    """Give the schema of a struct, without references."""
    (root,), components = msgspec.json.schema_components([struct], ref_template=_REF)
    return _structural(root, components)


def _structural(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        told = {key: schema[key] for key in ("description",) if key in schema}
        found = {**_structural(components[name], components), **told}
        if rules := RULES.get(name):
            found["x-kubernetes-validations"] = [rule._asdict() for rule in rules]
        return found
    if "anyOf" in schema:  # a value or null: a field that may be absent
        chosen = next(one for one in schema["anyOf"] if one != {"type": "null"})
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return {**_structural(chosen, components), **rest}
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("title", "default", "properties", "items"):
            continue
        made[key] = (
            _structural(value, components) if key == "additionalProperties" and value else value
        )
    if made.get("additionalProperties") in ({}, True):  # free fields are marked as such
        del made["additionalProperties"]
    if "enum" in made:
        made["type"] = "string"
    if "items" in schema:
        made["items"] = _structural(schema["items"], components)
    if "properties" in schema:
        made["properties"] = {
            name: _with_default(value, components) for name, value in schema["properties"].items()
        }
        _mark_conditions(made["properties"])
    return made


def _with_default(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """Add the default: an object's is empty, and its fields have their own."""
    made = _structural(schema, components)
    default = schema.get("default")
    if isinstance(default, dict):
        if made.get("properties"):
            made["default"] = {}
    elif default not in (None, "", []):
        made["default"] = default
    return made


def _mark_conditions(properties: dict[str, Any]) -> None:
    """Say by what conditions are told apart: then two writers do not erase each other's."""
    if "conditions" in properties:
        properties["conditions"] |= {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }

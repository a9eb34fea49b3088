"""Writes files from the operator's own tables: of the chart, for kustomize, of the documents.

And what becomes of some clusters, for tests to compare.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafscale import __version__
from kafscale.operator.installation import LEASE_RULES, NODE_RULES, RULES, manifests
from kafscale.operator.kinds.crds import RESOURCES, definition
from tests.support.kubernetes.golden import GOLDEN, golden_files
from tests.support.plain_yaml import dump

CHART = Path(__file__).parents[2] / "deploy/helm/kafscale"


ALARMS = ("alerts.yml", "operator-alerts.yml")
PLAIN = CHART.parents[1] / "kustomize"
_DEFINITION = "CustomResourceDefinition"


def plain_files() -> dict[str, str]:
    """The files of the folder that `kubectl apply -k` takes, by their names."""
    made = manifests("kafscale", f"kafscale:{__version__}")
    parts = {
        "namespace.yaml": [one for one in made if one["kind"] == "Namespace"],
        "definitions.yaml": [one for one in made if one["kind"] == _DEFINITION],
        "operator.yaml": [one for one in made if one["kind"] not in ("Namespace", _DEFINITION)],
    }
    whole = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(parts),
    }
    told = "# Made by `make manifests` from the operator's own tables.\n"
    return {
        "kustomization.yaml": told + dump(whole),
        **{name: told + "---\n".join(dump(one) for one in found) for name, found in parts.items()},
    }


FIELDS = CHART.parents[2] / "docs/operating/kubernetes-fields.md"
_OPENING = """# Fields of the resources on Kubernetes

Made from the operator's own tables by `make manifests`. [On Kubernetes](kubernetes.md) says how the
resources are used. A field in bold must be given.
"""


def fields_page() -> str:
    """Every field of every resource as a table."""
    pages = [_OPENING]
    for resource in RESOURCES:
        (version,) = definition(resource)["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            pages.append(f"\n## {resource.kind}: {part}\n\n| field | type | default | meaning |\n")
            pages.append("|---|---|---|---|\n")
            pages += [f"| {' | '.join(row)} |\n" for row in _rows(schema["properties"][part], part)]
    return "".join(pages)


def _rows(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str, str]]:
    for name, below in schema.get("properties", {}).items():
        whole = f"{path}.{name}"
        field = f"`{whole}`"
        shown = f"**{field}**" if name in schema.get("required", []) else field
        default = below.get("default")
        told = "" if default in (None, {}) else f"`{json.dumps(default)}`"
        kind = "/".join(below["enum"]) if "enum" in below else below["type"]
        limits = [f"{word} {below[key]}" for key, word in _LIMITS.items() if key in below]
        yield shown, ", ".join([kind, *limits]), told, below["description"]
        items = below.get("items", {})
        yield from _rows(below, whole)
        yield from _rows(items, f"{whole}[]")


_LIMITS = {"minimum": "at least", "maximum": "at most"}


def main() -> None:
    FIELDS.write_text(fields_page())
    for resource in RESOURCES:
        (CHART / "crds" / f"{resource.plural}.yaml").write_text(dump(definition(resource)))
    rights = {"parts": RULES, "nodes": NODE_RULES, "lease": LEASE_RULES}
    (CHART / "files/rights.yaml").write_text(dump(rights))
    for name in ALARMS:
        (CHART / "files" / name).write_bytes((CHART.parents[1] / "prometheus" / name).read_bytes())
    PLAIN.mkdir(exist_ok=True)
    for name, text in plain_files().items():
        (PLAIN / name).write_text(text)
    GOLDEN.mkdir(exist_ok=True)
    for name, text in golden_files().items():
        (GOLDEN / name).write_text(text)


if __name__ == "__main__":
    main()

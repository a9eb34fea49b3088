"""Write the bill of materials of an image, as CycloneDX 1.5: what `pip inspect` lists, on stdin.

The Dockerfile runs it, and scanners read the result. They find packages of the base image by
themselves.
"""

import json
import re
import sys
from typing import Any

NAME = "kafscale"


def component(metadata: dict[str, Any], kind: str) -> dict[str, Any]:
    """One package."""
    # The name that the index uses, whatever the package calls itself.
    name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
    url = f"pkg:pypi/{name}@{metadata['version']}"
    made = {"type": kind, "bom-ref": url, "name": name, "version": metadata["version"], "purl": url}
    if license_ := metadata.get("license_expression"):
        made["licenses"] = [{"expression": license_}]
    elif license_ := (metadata.get("license") or "").strip():
        made["licenses"] = [{"license": {"name": license_.splitlines()[0]}}]
    return made


def bill(installed: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that is installed beside the application, and the application."""
    packages = sorted((one["metadata"] for one in installed), key=lambda one: one["name"].lower())
    (own,) = (one for one in packages if one["name"] == NAME)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(own, "application")},
        "components": [component(one, "library") for one in packages if one["name"] != NAME],
    }


if __name__ == "__main__":
    json.dump(bill(json.load(sys.stdin)["installed"]), sys.stdout, indent=1)

"""Karapace: a schema registry whose store is the compacted topic `_schemas`.

It is on no package registry. KAFSCALE_TEST_KARAPACE names a Python in which it is installed.
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.ecosystem.running import Running, eventually
from tests.ecosystem.trials import tried
from tests.support.broker import KafscaleProcess
from tests.support.ports import free_port

VERSION = "6.2.0"
SUBJECT = "orders-value"


class Registry(Running):
    """One registry, and questions to its REST interface."""

    def __init__(self, python: str, bootstrap: str, folder: Path, number: int) -> None:
        self._port = free_port()
        settings = {
            "KARAPACE_BOOTSTRAP_URI": bootstrap,
            "KARAPACE_HOST": "127.0.0.1",
            "KARAPACE_ADVERTISED_HOSTNAME": "127.0.0.1",
            "KARAPACE_PORT": str(self._port),
            "KARAPACE_KARAPACE_REGISTRY": "true",
            "KARAPACE_REPLICATION_FACTOR": "1",
        }
        output = folder / f"registry-{number}.txt"
        super().__init__([python, "-m", "karapace"], output, {**os.environ, **settings})

    def ask(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer, the code of a refusal, or nothing from a registry that is not ready."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        url = f"http://127.0.0.1:{self._port}{path}"
        try:
            with urlopen(Request(url, data, headers, method=verb), timeout=60) as answer:
                return json.load(answer)
        except HTTPError as refused:
            return None if refused.code in (500, 503) else refused.code
        except (URLError, ConnectionError, TimeoutError):
            return None


def record(*fields: str) -> dict[str, str]:
    columns = [{"name": name, "type": "string", "default": ""} for name in fields]
    return {"schema": json.dumps({"type": "record", "name": "Order", "fields": columns})}


@tried(
    "Karapace",
    VERSION,
    "schemas are registered, found and refused as incompatible; the broker is killed on the way; "
    "a second registry reads all of them back from `_schemas`",
    always=True,
)
def test_schema_registry(broker: KafscaleProcess, tmp_path: Path) -> None:
    python = os.environ.get("KAFSCALE_TEST_KARAPACE")
    if python is None:
        pytest.skip("no package registry has Karapace (KAFSCALE_TEST_KARAPACE names its Python)")
    versions = f"/subjects/{SUBJECT}/versions"
    first, second = record("id"), record("id", "name")
    with Registry(python, broker.bootstrap, tmp_path, 1) as registry:
        eventually(registry, lambda: registry.ask("GET", "/subjects") == [])
        eventually(registry, lambda: registry.ask("POST", versions, first) == {"id": 1})
        broker.kill()
        broker.start()
        eventually(registry, lambda: registry.ask("POST", versions, second) == {"id": 2})
        number = {"schema": json.dumps({"type": "int"})}
        assert registry.ask("POST", versions, number) == 409
        registry.terminate()
    with Registry(python, broker.bootstrap, tmp_path, 2) as registry:
        eventually(registry, lambda: registry.ask("GET", versions) == [1, 2])
        found = registry.ask("GET", "/schemas/ids/2")
        assert json.loads(found["schema"]) == json.loads(second["schema"])
        registry.terminate()

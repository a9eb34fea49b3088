"""DuckDB as a reader of tables that knows nothing of us: its own Parquet, Delta and Iceberg.

Its extensions come from PyPI as packages of one version: no download at run time.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.venv import python_with

VERSION = "1.5.5"
PACKAGES = ("duckdb", "duckdb-extensions", *(
    f"duckdb-extension-{name}" for name in ("httpfs", "avro", "iceberg", "delta")
))  # fmt: skip
PROGRAM = Path(__file__).parent / "python" / "duck.py"


def ask(*statements: str) -> list[list[list[Any]]]:
    """The rows of each statement; bytes as hex. Unavailable says why it cannot be had."""
    python = python_with(*(f"{name}=={VERSION}" for name in PACKAGES))
    asked = "".join(json.dumps(one) + "\n" for one in statements)
    ran = subprocess.run(
        [python, str(PROGRAM)], input=asked, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def bucket_secret(endpoint: str, key: str, secret: str) -> str:
    """The statement by which it learns where the bucket is."""
    host = endpoint.removeprefix("http://")
    return (
        f"CREATE SECRET bucket (TYPE s3, KEY_ID '{key}', SECRET '{secret}', ENDPOINT '{host}', "
        "URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
    )


def rows_of(statement: str, *before: Sequence[str]) -> list[list[Any]]:
    """The rows of one statement, after others."""
    return ask(*map(str, before), statement)[-1]

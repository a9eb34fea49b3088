"""The first program of the documents, run by a Python that is not the first one on the PATH."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.kafka import create, produce
from tests.support.broker import KafscaleProcess

DOCUMENT = Path(__file__).parents[2] / "docs/pipeline/walk-through.md"
SETTING = 'os.environ.setdefault("PYSPARK_PYTHON", sys.executable)'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a shell whose python3 has no packages."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    ours = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def program(broker: KafscaleProcess, topic: str) -> str:
    """The one of the document that reads a topic, about another topic."""
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    [text] = [block for block in blocks if SETTING in block]
    words = {'"orders"': f'"{topic}"', "./data": str(broker.data), "20_000": "3"}
    for word, other in words.items():
        assert word in text
        text = text.replace(word, other)
    return text


def run(text: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd=folder,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def test_the_program_of_the_document_reads_a_topic_and_needs_its_setting(
    broker: KafscaleProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    create(broker.bootstrap, "first-program", 1)
    produce(broker.bootstrap, "first-program", [(0, b"k", b"v")] * 3)
    text = program(broker, "first-program")
    ran = run(text, environment, tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    ran = run(text.replace(SETTING, "pass"), environment, tmp_path)
    assert ran.returncode != 0
    assert "DATA_SOURCE_NOT_FOUND" in ran.stderr

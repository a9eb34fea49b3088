"""A program hears in time that Spark would start another Python than its own."""

import sys
from pathlib import Path

import pytest

from kafscale.spark import worker_python


@pytest.fixture
def system_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Another python3, first on the PATH; nothing says which Python Spark should start."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return str(python)


def test_another_python_on_the_path_is_named_with_the_remedy(system_python: str) -> None:
    with pytest.warns(UserWarning, match=f"{system_python}.*set PYSPARK_PYTHON={sys.executable}"):
        worker_python.warn_of_other_python()


def test_what_notebooks_import_warns(system_python: str) -> None:
    import kafscale.spark

    with pytest.warns(UserWarning, match="DATA_SOURCE_NOT_FOUND"):
        _ = kafscale.spark.register_topics


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_a_python_that_was_chosen_is_not_questioned(
    name: str, system_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/opt/python3")
    assert worker_python.other_python() is None


def test_the_python_of_the_same_folder_is_this_one(
    system_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert worker_python.other_python() is None

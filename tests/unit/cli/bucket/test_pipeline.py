"""`kafscale pipeline` where not everything is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafscale.cli.main import main
from tests.unit.spark.topics import Topic


@pytest.fixture
def store(tmp_path: Path) -> str:
    topic = Topic(tmp_path / "objects")
    topic.flush(0, [b"x"])
    return topic.url


BARE = """
import sys
sys.modules["pyspark"] = None
from kafscale.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("words", [("pipeline", "audit"), ("sql", "select 1")])
def test_without_spark_a_command_says_what_to_do(store: str, words: tuple[str, ...]) -> None:
    """As it is after nothing but `make run`."""
    command = [sys.executable, "-c", BARE, *words, "--store", store]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "pyspark is not installed: `make setup` in a checkout" in ran.stderr
    assert "pip install 'kafscale[spark]'" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("library", "words", "extra"),
    [
        ("deltalake", ["--format", "delta"], "delta"),
        ("pyiceberg", ["--format", "iceberg"], "iceberg"),
        ("pyruhvro", ["--value-format", "avro", "--value-schema", '{"type":"record"}'], "avro"),
    ],
)
def test_without_a_formats_library_an_export_names_the_extra(
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    library: str,
    words: list[str],
    extra: str,
) -> None:
    for name in [name for name in sys.modules if name.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("kafscale.spark.lake.delta", "kafscale.spark.lake.iceberg"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    given = ["pipeline", "export", "--store", store, "--table", str(tmp_path / "t"), *words]
    monkeypatch.setattr(sys, "argv", ["kafscale", *given])
    assert main(given) == 1
    error = capsys.readouterr().err
    assert f"{library} is not installed" in error
    assert f"pip install 'kafscale[{extra}]'" in error

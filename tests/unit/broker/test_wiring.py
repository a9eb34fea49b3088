"""What is chosen by which setting."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafscale.broker.config import load
from kafscale.broker.wiring import open_metadata
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.model.errors import MetadataUnavailable
from kafscale.testing.clock import ManualClock


async def test_without_etcd_metadata_is_a_file(tmp_path: Path) -> None:
    store = open_metadata(load(None, {}, {"--data-dir": str(tmp_path)}), ManualClock())
    assert isinstance(store, EmbeddedMetadataStore)
    await store.aclose()


async def test_etcd_without_its_library_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(None, {"KAFSCALE_ETCD_ENDPOINTS": "a"}, {})
    for module in [name for name in sys.modules if name.startswith("kafscale.metadata.etcd")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MetadataUnavailable, match=r"grpc is not installed: .*kafscale\[etcd\]"):
        open_metadata(config, ManualClock())


def test_a_broker_on_files_loads_no_grpc() -> None:
    code = "import sys, kafscale.broker.main; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

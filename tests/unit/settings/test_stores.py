"""What is chosen by which setting."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafscale.log.formats import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.model.errors import MetadataUnavailable
from kafscale.settings.loading import load
from kafscale.settings.stores import open_metadata, open_store
from kafscale.testing.clock import ManualClock
from tests.support.recording_s3 import RecordingS3


async def test_without_etcd_metadata_is_a_file(tmp_path: Path) -> None:
    store = open_metadata(load(None, {}, {"--data-dir": str(tmp_path)}), ManualClock())
    assert isinstance(store, EmbeddedMetadataStore)
    await store.aclose()


async def test_settings_of_the_bucket_are_those_of_the_requests() -> None:
    async with RecordingS3() as server:
        flags = {
            "s3.bucket": "b",
            "s3.endpoint": server.endpoint,
            "s3.region": "eu-west-3",
            "s3.accessKey": "AK",
            "s3.secretKey": "SK",
            "s3.sessionToken": "T",
            "s3.storageClass": "STANDARD_IA",
            "s3.serverSideEncryption": "aws:kms",
            "s3.kmsKeyId": "key",
            "s3.partSize": "5Mi",
        }
        store = open_store(load(None, {}, flags))
        await store.put_new("a", [bytes(1 << 20)])
        await store.put_new(f"a/{keys.rewritten_name(0, 1, 2)}", [bytes(6 << 20)])
        await store.aclose()
    put, begun = server.seen[:2]
    assert put.path == "/b/a"
    assert "Credential=AK/" in put.headers["authorization"]
    assert "/eu-west-3/s3/" in put.headers["authorization"]
    assert begun.method == "POST"  # of an upload in parts
    for seen in (put, begun):
        assert seen.headers["x-amz-security-token"] == "T"
        assert seen.headers["x-amz-storage-class"] == "STANDARD_IA"
        assert seen.headers["x-amz-server-side-encryption"] == "aws:kms"
        assert seen.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "key"


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

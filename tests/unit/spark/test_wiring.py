"""From a URL to a store."""

from pathlib import Path

import pytest

from kafscale.model.errors import StoreRefused
from kafscale.objects.files import FileObjectStore
from kafscale.objects.s3 import S3ObjectStore
from kafscale.spark.wiring import Location, locate, open_store, s3_settings


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    FileObjectStore(tmp_path / "objects")
    return tmp_path


def test_a_brokers_data_folder_is_enough(data_folder: Path) -> None:
    expected = Location("file", str(data_folder / "objects"), "default")
    assert locate(f"file://{data_folder}") == expected
    assert locate(str(data_folder)) == expected
    assert locate(f"file://{data_folder}/objects") == expected


def test_what_follows_the_objects_folder_is_the_namespace(data_folder: Path) -> None:
    assert locate(f"{data_folder}/objects/tenant/ns").namespace == "tenant/ns"


def test_a_path_in_a_bucket_is_the_namespace() -> None:
    assert locate("s3://logs") == Location("s3", "logs", "default")
    assert locate("s3://logs/tenant/ns/") == Location("s3", "logs", "tenant/ns")


@pytest.mark.parametrize(
    "url",
    ["s3://", "gopher://x", "s3://key:secret@bucket", "s3://bucket?region=x", "file://host/x", "/"],
)
def test_what_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(StoreRefused):
        locate(url)


def test_an_endpoint_of_the_environment_means_path_style() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x"}
    assert isinstance(open_store(locate("s3://b"), environment), S3ObjectStore)


def test_class_and_encryption_come_from_the_environment() -> None:
    settings = s3_settings(
        "b",
        {
            "KAFSCALE_S3_STORAGE_CLASS": "STANDARD_IA",
            "KAFSCALE_S3_SERVER_SIDE_ENCRYPTION": "aws:kms",
            "KAFSCALE_S3_KMS_KEY_ID": "key",
        },
    )
    assert settings.storage_class == "STANDARD_IA"
    assert (settings.encryption, settings.kms_key) == ("aws:kms", "key")

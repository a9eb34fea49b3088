"""From a URL to a store."""

import pickle
from pathlib import Path

import pytest

from kafscale.model.errors import StoreRefused
from kafscale.model.security.secret import Secret
from kafscale.objects.files import FileObjectStore
from kafscale.objects.s3 import S3ObjectStore
from kafscale.settings.loading import KEYS
from kafscale.settings.locations import Location, locate, open_location, s3_settings
from kafscale.settings.sources import VARIABLES
from kafscale.settings.values import ConfigError
from kafscale.spark.bucket import Bucket
from tests.support.recording_s3 import RecordingS3


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
    assert isinstance(open_location(locate("s3://b"), environment), S3ObjectStore)


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


def test_buckets_of_google_and_azure_are_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert locate("gs://logs/ns") == Location("gs", "logs", "ns")
    assert locate("az://container") == Location("az", "container", "default")
    for url in ("gs://logs", "az://container"):
        assert isinstance(open_location(locate(url), {}), S3ObjectStore)


def test_every_setting_of_the_bucket_has_a_variable() -> None:
    assert {key for key in KEYS if key.startswith("s3.")} <= set(VARIABLES.values())


def test_every_setting_of_the_bucket_counts_without_a_broker() -> None:
    settings = s3_settings(
        "s3://b",
        {
            "KAFSCALE_S3_CONCURRENCY": "7",
            "KAFSCALE_S3_MAX_RETRIES": "9",
            "KAFSCALE_S3_PART_SIZE": "8Mi",
            "KAFSCALE_S3_MAX_IDLE_CONNS": "5",
            "KAFSCALE_S3_IDLE_CONN_TIMEOUT": "6s",
            "KAFSCALE_S3_CONNECT_TIMEOUT": "2s",
            "KAFSCALE_S3_REQUEST_TIMEOUT": "1m",
        },
    )
    assert (settings.concurrency, settings.max_retries, settings.part_size) == (7, 9, 8 << 20)
    assert (settings.max_idle, settings.idle_timeout_s) == (5, 6.0)
    assert (settings.connect_timeout_s, settings.request_timeout_s) == (2.0, 60.0)


def test_the_bucket_is_the_one_of_the_url_and_other_variables_of_the_broker_do_not_count() -> None:
    environment = {
        "KAFSCALE_S3_BUCKET": "another",
        "KAFSCALE_S3_NAMESPACE": "..",
        "KAFSCALE_BROKER_HOST": "0.0.0.0",
        "KAFSCALE_NO_SUCH": "1",
    }
    assert s3_settings("s3://b", environment).name == "b"


def test_a_misspelt_variable_of_the_bucket_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean KAFSCALE_S3_CONCURRENCY"):
        s3_settings("s3://b", {"KAFSCALE_S3_CONCURENCY": "1"})


def test_our_variables_beat_those_of_aws_and_keys_are_never_mixed() -> None:
    aws = {
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "theirs",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
    }
    settings = s3_settings("s3://b", aws)
    assert (settings.region, settings.access_key, settings.session_token) == (
        "eu-west-1",
        Secret("theirs"),
        Secret("t"),
    )
    ours = {"KAFSCALE_S3_REGION": "x", "KAFSCALE_S3_ACCESS_KEY": "k", "KAFSCALE_S3_SECRET_KEY": "s"}
    settings = s3_settings("s3://b", aws | ours)
    assert (settings.region, settings.access_key, settings.session_token) == (
        "x",
        Secret("k"),
        Secret(),
    )
    assert s3_settings("gs://b", aws).access_key == Secret()


async def test_a_store_by_its_url_uses_the_endpoint_and_the_keys_of_the_variables() -> None:
    async with RecordingS3() as server:
        environment = {
            "KAFSCALE_S3_ENDPOINT": server.endpoint,
            "KAFSCALE_S3_ACCESS_KEY": "AK",
            "KAFSCALE_S3_SECRET_KEY": "SK",
        }
        store = open_location(locate("s3://b"), environment)
        await store.put_new("a", [b"x"])
        await store.aclose()
    assert "Credential=AK/" in server.seen[0].headers["authorization"]


def test_a_bucket_travels_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFSCALE_S3_ACCESS_KEY", "AKIA-VISIBLE")
    monkeypatch.setenv("KAFSCALE_S3_SECRET_KEY", "very-secret")
    sent = pickle.dumps(Bucket("s3://b/ns"))
    assert b"AKIA-VISIBLE" not in sent
    assert b"very-secret" not in sent

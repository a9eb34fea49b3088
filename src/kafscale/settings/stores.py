"""From settings to open stores: the one place where adapters are chosen.

Here: `open_store` and `open_metadata`, for brokers, the pipeline and every tool alike.
Next door: what a store's URL means (locations.py), the settings (sections.py).
Never here: which library an adapter uses; each is imported only when the settings choose it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from kafscale.log.formats import keys
from kafscale.metadata.store import Entry, MetadataStore
from kafscale.model.clock import Clock
from kafscale.model.errors import MetadataUnavailable, StoreRefused
from kafscale.model.security.secret import Secret
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.settings.sections import EtcdSection, S3Section
from kafscale.system import SystemDice

if TYPE_CHECKING:
    from kafscale.objects.bucket_client import S3Settings


def open_store(config: Config) -> ObjectStore:
    """Open the object store that the settings choose."""
    if config.store_kind == "memory":
        from kafscale.objects.memory import MemoryObjectStore

        return MemoryObjectStore()
    if config.store_kind == "s3":
        return open_bucket(s3_settings(config.s3))
    return open_folder(_make_folder(config.objects_dir), fsync=config.storage.fsync)


def open_bucket(settings: "S3Settings") -> ObjectStore:
    """Open a bucket of S3, Google Cloud Storage or Azure."""
    from kafscale.objects.s3 import S3ObjectStore

    return S3ObjectStore(settings, is_unique=keys.is_rewritten, dice=SystemDice())


def open_folder(folder: Path, *, fsync: bool = False) -> ObjectStore:
    """Open a folder of objects."""
    from kafscale.objects.files import FileObjectStore

    return FileObjectStore(folder, fsync)


def s3_settings(s3: S3Section) -> "S3Settings":
    """Translate the section `s3` to what the adapter takes."""
    from kafscale.objects.bucket_client import S3Settings

    return S3Settings(
        bucket=s3.bucket or "",
        region=s3.region,
        endpoint=s3.endpoint or "",
        path_style=s3.path_style,
        access_key=s3.access_key or Secret(),
        secret_key=s3.secret_key or Secret(),
        session_token=s3.session_token or Secret(),
        max_retries=s3.max_retries,
        concurrency=s3.concurrency,
        part_size=s3.part_size,
        max_idle=s3.idle_connections,
        idle_timeout_s=s3.idle_conn_timeout,
        connect_timeout_s=s3.connect_timeout,
        request_timeout_s=s3.request_timeout,
        storage_class=s3.storage_class or "",
        encryption=s3.server_side_encryption or "",
        kms_key=s3.kms_key_id or "",
    )


def open_metadata(config: Config, clock: Clock) -> MetadataStore:
    """Open the metadata store that the settings choose."""
    if config.etcd.endpoints:
        return _open_etcd(config.etcd, clock)
    from kafscale.metadata.embedded import EmbeddedMetadataStore

    _make_folder(Path(config.broker.data_dir))
    return EmbeddedMetadataStore(config.metadata_file, config.storage.sqlite_synchronous, clock)


def read_metadata_file(path: Path, prefix: str) -> list[Entry]:
    """Read a range of a broker's metadata file, whether the broker runs or not."""
    from kafscale.metadata import embedded

    return embedded.peek(path, prefix)


def _open_etcd(etcd: EtcdSection, clock: Clock) -> MetadataStore:
    try:
        from kafscale.metadata.etcd.client import EtcdSettings
        from kafscale.metadata.etcd.store import EtcdMetadataStore
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        raise MetadataUnavailable(
            f"etcd.endpoints is set and {missing.name} is not installed: "
            "pip install 'kafscale[etcd]'"
        ) from missing
    return EtcdMetadataStore(
        EtcdSettings(
            etcd.targets(),
            dial_timeout_s=etcd.dial_timeout,
            request_timeout_s=etcd.request_timeout,
            username=etcd.username or "",
            password=etcd.password or Secret(),
            tls=etcd.is_encrypted(),
            ca_file=etcd.tls.ca_file or "",
            cert_file=etcd.tls.cert_file or "",
            key_file=etcd.tls.key_file or "",
            prefix=etcd.prefix,
        ),
        clock,
    )


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StoreRefused(f"cannot use {folder}: {problem.strerror}") from problem
    return folder

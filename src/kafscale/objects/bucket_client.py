"""From settings to a client of a bucket: S3, Google Cloud Storage or Azure, all through obstore.

Here: where the bucket is, who we are, how patient we are, what is sent along with every object.
Next door: what is done with the client (s3.py), AWS's credentials (aws_chain.py).
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

from kafscale.model.security.secret import NO_SECRET, Secret
from kafscale.objects import aws_chain

if TYPE_CHECKING:
    from obstore.store import (  # exist in the type stubs only
        AzureConfig,
        ClientConfig,
        GCSConfig,
        RetryConfig,
        S3Config,
        S3Credential,
        S3CredentialProvider,
    )

FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 10.0

Client = S3Store | GCSStore | AzureStore


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where the bucket is and how patient we are. Without keys: the provider's usual chain."""

    bucket: str  # name, s3://name, gs://name or az://container
    region: str = "us-east-1"
    endpoint: str = ""  # empty: the provider itself
    path_style: bool = False
    access_key: Secret = NO_SECRET
    secret_key: Secret = NO_SECRET
    session_token: Secret = NO_SECRET
    max_retries: int = 3
    concurrency: int = 64  # requests in flight
    part_size: int = 16 << 20  # of uploads in parts
    max_idle: int = 100  # open connections kept for later
    idle_timeout_s: float = 90.0
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0  # one attempt, body included
    retry_timeout_s: float = 60.0  # no attempt begins later than this
    storage_class: str = ""
    encryption: str = ""  # AES256 or aws:kms
    kms_key: str = ""

    @property
    def scheme(self) -> str:
        """Which provider."""
        scheme, mark, _ = self.bucket.partition("://")
        return scheme if mark else "s3"

    @property
    def name(self) -> str:
        """The bucket without its scheme."""
        return self.bucket.rpartition("://")[2]


def open_client(settings: S3Settings, max_retries: int) -> Client:
    """Make a client; ValueError or an error of obstore's if that is not possible."""
    options = _client_options(settings)
    retries = _retry_config(settings, max_retries)
    match settings.scheme:
        case "s3":
            return S3Store(
                settings.name,
                config=_s3_config(settings),
                client_options=options,
                retry_config=retries,
                credential_provider=_credentials(settings),
            )
        case "gs":
            google: GCSConfig = {"base_url": settings.endpoint} if settings.endpoint else {}
            return GCSStore(
                settings.name, config=google, client_options=options, retry_config=retries
            )
        case "az":
            azure: AzureConfig = {"endpoint": settings.endpoint} if settings.endpoint else {}
            return AzureStore(
                settings.name, config=azure, client_options=options, retry_config=retries
            )
    raise ValueError(f"{settings.bucket}: a bucket is a name, s3://, gs:// or az://")


def _client_options(settings: S3Settings) -> "ClientConfig":
    return {
        "allow_http": settings.endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=settings.connect_timeout_s),
        "timeout": timedelta(seconds=settings.request_timeout_s),
        "pool_max_idle_per_host": str(settings.max_idle),
        "pool_idle_timeout": timedelta(seconds=settings.idle_timeout_s),
    }


def _retry_config(settings: S3Settings, max_retries: int) -> "RetryConfig":
    return {
        "max_retries": max_retries,
        "retry_timeout": timedelta(seconds=settings.retry_timeout_s),
        "backoff": {
            "init_backoff": timedelta(seconds=FIRST_PAUSE_S),
            "max_backoff": timedelta(seconds=LAST_PAUSE_S),
            "base": 2,
        },
    }


def _s3_config(settings: S3Settings) -> "S3Config":
    config: S3Config = {
        "region": settings.region,
        "virtual_hosted_style_request": not settings.path_style,
    }
    if settings.endpoint:
        config["endpoint"] = _endpoint(settings)
    if settings.encryption:
        config["server_side_encryption"] = settings.encryption
    if settings.kms_key:
        config["sse_kms_key_id"] = settings.kms_key
    return config


def _endpoint(settings: S3Settings) -> str:
    """The address of the bucket in obstore's sense: with the bucket's name unless path style."""
    endpoint = settings.endpoint.rstrip("/")
    if settings.path_style:
        return endpoint
    parts = urlsplit(endpoint)
    return parts._replace(netloc=f"{settings.name}.{parts.netloc}").geturl()


def _credentials(settings: S3Settings) -> "S3CredentialProvider | None":
    if not settings.access_key:
        return aws_chain.from_environment(os.environ)

    def given() -> "S3Credential":
        return {
            "access_key_id": settings.access_key.reveal(),
            "secret_access_key": settings.secret_key.reveal(),
            # Said outright, or a token among the variables would be sent with keys not its own.
            "token": settings.session_token.reveal() or None,
            "expires_at": None,
        }

    return given

"""From a store's URL to the store: the one place of the pipeline where adapters are chosen.

    file:///var/lib/kafscale            a broker's data folder, or the objects folder in it
    file:///var/lib/kafscale/objects/ns the same, another namespace than `default`
    s3://bucket                         namespace `default`
    s3://bucket/tenant/ns               any other

Credentials and endpoint come from the environment of each process, under the broker's names
(KAFSCALE_S3_*) or AWS's own; they are never part of a URL, an option or a plan.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from kafscale.log.formats import keys
from kafscale.model.errors import StoreRefused
from kafscale.objects.store import ObjectStore

if TYPE_CHECKING:
    from kafscale.metadata.store import Entry
    from kafscale.objects.s3 import S3Settings

DEFAULT_NAMESPACE: Final = "default"
_OBJECTS: Final = "objects"  # what a broker calls the folder below its data folder
_MARK: Final = ".tmp"  # what the root of a file store always holds


class Location(NamedTuple):
    """Where objects lie and under which namespace to look."""

    kind: str  # "file" or "s3"
    root: str  # folder or bucket
    namespace: str


def locate(url: str) -> Location:
    """Read a store's URL; StoreRefused says what is wrong with it."""
    parts = urlsplit(url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise StoreRefused("a store's URL has no credentials, query or fragment")
    if parts.scheme == "s3":
        if not parts.netloc:
            raise StoreRefused(f"{url}: which bucket? write s3://bucket")
        return Location("s3", parts.netloc, parts.path.strip("/") or DEFAULT_NAMESPACE)
    if parts.scheme in ("file", ""):
        if parts.netloc not in ("", "localhost", "."):
            raise StoreRefused(f"{url}: write file:///absolute/path or a plain path")
        path = unquote(parts.path)
        return _find_root(Path("." + path if parts.netloc == "." else path or "."), url)
    raise StoreRefused(f"{url}: a store is file:///path or s3://bucket/namespace")


def locate_folder(url: str) -> Location:
    """Read the URL of a folder that need not exist yet, nor be part of a broker's store."""
    parts = urlsplit(url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise StoreRefused("a folder's URL has no credentials, query or fragment")
    if parts.scheme == "s3":
        if not parts.netloc or not parts.path.strip("/"):
            raise StoreRefused(f"{url}: write s3://bucket/path")
        return Location("s3", parts.netloc, parts.path.strip("/"))
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Location("file", str(Path(unquote(parts.path)).absolute()), "")
    if parts.scheme:
        raise StoreRefused(f"{url}: write a path, file:///path or s3://bucket/path")
    return Location("file", str(Path(url).absolute()), "")


def make_folder(where: Location) -> None:
    """Have a folder that an open store may count on, also after somebody removed it."""
    if where.kind == "file":
        os.makedirs(os.path.join(where.root, _MARK), exist_ok=True)


def _find_root(path: Path, url: str) -> Location:
    """The nearest folder on the way up that is a store; what is left is the namespace."""
    path = path.absolute()
    if (path / _OBJECTS / _MARK).is_dir():
        return Location("file", str(path / _OBJECTS), DEFAULT_NAMESPACE)
    for root in (path, *path.parents):
        if (root / _MARK).is_dir():
            left = path.relative_to(root).as_posix()
            return Location("file", str(root), DEFAULT_NAMESPACE if left == "." else left)
    raise StoreRefused(f"{url}: no broker has kept objects there")


def metadata_beside(where: Location) -> Path | None:
    """The metadata of the broker whose objects these are, if they lie beside each other."""
    file = Path(where.root).parent / "metadata.db"
    return file if where.kind == "file" and file.is_file() else None


def read_metadata(path: Path, prefix: str) -> "list[Entry]":
    """Read a range of a broker's metadata, whether the broker runs or not."""
    from kafscale.metadata import embedded

    return embedded.peek(path, prefix)


def open_store(where: Location, environment: Mapping[str, str] = os.environ) -> ObjectStore:
    """Open the store a URL stands for."""
    if where.kind == "file":
        from kafscale.objects.files import FileObjectStore

        return FileObjectStore(Path(where.root))
    from kafscale.objects.s3 import S3ObjectStore

    return S3ObjectStore(s3_settings(where.root, environment), keys.is_rewritten)


def s3_settings(bucket: str, environment: Mapping[str, str] = os.environ) -> "S3Settings":
    """How to reach S3, by the environment."""
    from kafscale.objects.s3 import S3Settings

    def given(*names: str) -> str:
        return next((environment[name] for name in names if environment.get(name)), "")

    endpoint = given("KAFSCALE_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    path_style = given("KAFSCALE_S3_PATH_STYLE").lower()
    return S3Settings(
        bucket=bucket,
        region=given("KAFSCALE_S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        endpoint=endpoint,
        path_style=path_style in ("1", "true", "yes") if path_style else bool(endpoint),
        access_key=given("KAFSCALE_S3_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
        secret_key=given("KAFSCALE_S3_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
        session_token=given("KAFSCALE_S3_SESSION_TOKEN", "AWS_SESSION_TOKEN"),
        storage_class=given("KAFSCALE_S3_STORAGE_CLASS"),
        encryption=given("KAFSCALE_S3_SERVER_SIDE_ENCRYPTION"),
        kms_key=given("KAFSCALE_S3_KMS_KEY_ID"),
    )

"""A store's URL: what it means, and how to open the store that it names.

    file:///var/lib/kafscale            a broker's data folder, or the objects folder in it
    file:///var/lib/kafscale/objects/ns the same, another namespace than `default`
    s3://bucket                         namespace `default`
    s3://bucket/tenant/ns               any other; gs:// and az:// likewise

Here: reading URLs; the settings of a bucket from the environment of this process: KAFSCALE_S3_*,
for s3:// also AWS's own variables. Credentials are never part of a URL, an option or a plan.
Next door: opening (stores.py), a broker's own settings (config.py).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from kafscale.model.errors import StoreRefused
from kafscale.objects.store import ObjectStore
from kafscale.settings import stores
from kafscale.settings.loading import load_bucket
from kafscale.settings.sections import METADATA_FILE, OBJECTS_FOLDER

if TYPE_CHECKING:
    from kafscale.objects.bucket_client import S3Settings

DEFAULT_NAMESPACE: Final = "default"
_BUCKETS: Final = ("s3", "gs", "az")
_MARK: Final = ".tmp"  # what the root of a file store always holds
_AWS_NAMES: Final = {
    "KAFSCALE_S3_ENDPOINT": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "KAFSCALE_S3_REGION": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_AWS_KEYS: Final = {
    "KAFSCALE_S3_ACCESS_KEY": "AWS_ACCESS_KEY_ID",
    "KAFSCALE_S3_SECRET_KEY": "AWS_SECRET_ACCESS_KEY",
    "KAFSCALE_S3_SESSION_TOKEN": "AWS_SESSION_TOKEN",
}


class Location(NamedTuple):
    """Where objects lie and under which namespace to look."""

    kind: str  # "file", "s3", "gs" or "az"
    root: str  # folder or bucket
    namespace: str


def locate(url: str) -> Location:
    """Read a store's URL; StoreRefused says what is wrong with it."""
    parts = urlsplit(url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise StoreRefused("a store's URL has no credentials, query or fragment")
    if parts.scheme in _BUCKETS:
        if not parts.netloc:
            raise StoreRefused(f"{url}: the bucket is missing; write {parts.scheme}://bucket")
        return Location(parts.scheme, parts.netloc, parts.path.strip("/") or DEFAULT_NAMESPACE)
    if parts.scheme in ("file", ""):
        if parts.netloc not in ("", "localhost", "."):
            raise StoreRefused(f"{url}: write file:///absolute/path or a plain path")
        path = unquote(parts.path)
        return _find_root(Path("." + path if parts.netloc == "." else path or "."), url)
    raise StoreRefused(
        f"{url}: a store is file:///path, s3://bucket/namespace, gs://bucket or az://container"
    )


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
    """Make the folder of an open file store, also after another program has removed it."""
    if where.kind == "file":
        os.makedirs(os.path.join(where.root, _MARK), exist_ok=True)


def _find_root(path: Path, url: str) -> Location:
    """Find the nearest folder on the way up that is a store; the rest is the namespace."""
    path = path.absolute()
    if (path / OBJECTS_FOLDER / _MARK).is_dir():
        return Location("file", str(path / OBJECTS_FOLDER), DEFAULT_NAMESPACE)
    for root in (path, *path.parents):
        if (root / _MARK).is_dir():
            rest = path.relative_to(root).as_posix()
            return Location("file", str(root), DEFAULT_NAMESPACE if rest == "." else rest)
    raise StoreRefused(f"{url}: no broker has kept objects there")


def find_metadata_file(where: Location) -> Path | None:
    """Find the metadata file of the broker whose objects these are, if it lies beside them."""
    file = Path(where.root).parent / METADATA_FILE
    return file if where.kind == "file" and file.is_file() else None


def open_location(where: Location, environment: Mapping[str, str] = os.environ) -> ObjectStore:
    """Open the store that a URL names. Raises ConfigError, StoreRefused."""
    if where.kind == "file":
        return stores.open_folder(Path(where.root))
    return stores.open_bucket(s3_settings(f"{where.kind}://{where.root}", environment))


def s3_settings(bucket: str, environment: Mapping[str, str] = os.environ) -> "S3Settings":
    """Say how to reach a bucket, by the variables. Raises ConfigError."""
    variables = dict(environment)
    if not bucket.startswith(("gs://", "az://")):
        variables = {**_aws_variables(environment), **variables}
    return stores.s3_settings(load_bucket(bucket, variables))


def _aws_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """AWS's variables under our names, where ours are not set."""
    given = {
        ours: next((environment[name] for name in theirs if environment.get(name)), "")
        for ours, theirs in _AWS_NAMES.items()
    }
    # Keys are taken together: a token of one pair is refused with another.
    has_pair = environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY")
    if has_pair and not environment.get("KAFSCALE_S3_ACCESS_KEY"):
        given |= {ours: environment.get(theirs, "") for ours, theirs in _AWS_KEYS.items()}
    return {name: value for name, value in given.items() if not environment.get(name)}

"""One object store per adapter, for the suites that every adapter must pass."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from kafscale.model.security.secret import Secret
from kafscale.objects.files import FileObjectStore
from kafscale.objects.memory import MemoryObjectStore
from kafscale.objects.s3 import S3ObjectStore, S3Settings
from kafscale.objects.store import ObjectStore
from kafscale.system import SystemClock
from kafscale.testing.simulated.store import SimulatedBucket, SimulatedObjectStore
from tests.support import seaweed

_folders = count()


def s3_settings(server: seaweed.SeaweedServer) -> S3Settings:
    return S3Settings(
        bucket=seaweed.BUCKET,
        endpoint=server.endpoint,
        path_style=True,
        access_key=Secret(seaweed.ACCESS_KEY),
        secret_key=Secret(seaweed.SECRET_KEY),
    )


def _open(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    match kind:
        case "memory":
            return MemoryObjectStore()
        case "simulated":
            return SimulatedObjectStore(SimulatedBucket(SystemClock().now_ms))
        case "files":
            return FileObjectStore(tmp_path / "objects", fsync=False)
        case "files-fsync":
            return FileObjectStore(tmp_path / "objects", fsync=True)
        case _:
            return S3ObjectStore(s3_settings(request.getfixturevalue("seaweed_server")))


@pytest.fixture(
    params=[
        "memory",
        "simulated",
        "files",
        "files-fsync",
        pytest.param("s3", marks=pytest.mark.slow),
    ]
)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    opened = _open(request.param, request, tmp_path)
    yield opened
    await opened.aclose()


@pytest.fixture
def folder() -> str:
    """A folder no other test uses: the bucket is shared."""
    return f"contract/{next(_folders)}"

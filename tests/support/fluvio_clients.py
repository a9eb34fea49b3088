"""Fluvio's own clients as programs, and brokers with a Fluvio door.

In this room: which versions are tried, how each is started, what its program shows.
Next door: the programs (python/fluvio_driver.py, js/fluvio, rust/fluvio-driver).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.broker import KafscaleProcess
from tests.support.cargo import rust_program
from tests.support.maven import ROOT, Unavailable
from tests.support.npm import node_program
from tests.support.ports import free_port
from tests.support.venv import folder_with

_SUPPORT: Final = ROOT / "tests/support"
DRIVER: Final = _SUPPORT / "python/fluvio_driver.py"
RUST_SOURCES: Final = _SUPPORT / "rust/fluvio-driver"
NEWEST, OLDER = "0.21.0", "0.16.5"
NPM: Final = "0.14.9"
CRATE: Final = "0.50.1"
WITHIN_S: Final = 120
# A client that waits for what does not come says so soon.
PATIENCE: Final = {"FLV_METADATA_TIMEOUT": "20000", "FLV_SOCKET_WAIT": "20"}


class FluvioClient(NamedTuple):
    """The command of a client's program, and what it needs of its environment."""

    command: list[str]
    environment: Mapping[str, str] = {}

    def with_files(
        self, domain: str, key: Path, certificate: Path, authority: Path
    ) -> "FluvioClient":
        """The same client with a certificate."""
        files = json.dumps([domain, str(key), str(certificate), str(authority)])
        return FluvioClient(self.command, {**self.environment, "TLS_FILES": files})

    def run(self, *words: str) -> list[dict[str, Any]]:
        """Run its program to the end; gives the lines that it shows."""
        done = subprocess.run(
            [*self.command, *words],
            env={**os.environ, **PATIENCE, **self.environment},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start its program; what it shows can be read, and it can be told lines."""
        return subprocess.Popen(
            [*self.command, *words],
            env={**os.environ, **PATIENCE, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def python_client(version: str = NEWEST, program: Path = DRIVER) -> FluvioClient:
    """The client of PyPI. Raises Unavailable.

    Of its dependencies the client imports one; another cannot be built for newer Pythons.
    """
    packages = folder_with(f"fluvio=={version}", "humanfriendly")
    return FluvioClient([sys.executable, str(program)], {"PYTHONPATH": packages})


def npm_client() -> FluvioClient:
    """The client of npm. Raises Unavailable."""
    return FluvioClient(node_program(_SUPPORT / "js/fluvio/fluvio_driver.js"))


def rust_client() -> FluvioClient:
    """The crate, in a program that is built at the first call. Raises Unavailable."""
    return FluvioClient([rust_program(RUST_SOURCES, "fluvio-driver")])


class FluvioBroker(KafscaleProcess):
    """A broker with its Fluvio ports on free ones."""

    def __init__(
        self, folder: Path, env: Mapping[str, str] | None = None, settings: Sequence[str] = ()
    ) -> None:
        self.sc_port, self.spu_port = free_port(), free_port()
        ports = {
            "KAFSCALE_FLUVIO_ENABLED": "true",
            "KAFSCALE_FLUVIO_SC_PORT": str(self.sc_port),
            "KAFSCALE_FLUVIO_SPU_PORT": str(self.spu_port),
        }
        super().__init__(folder, {**ports, **(env or {})}, settings)

    @property
    def control(self) -> str:
        return f"127.0.0.1:{self.sc_port}"


EVERYONE: Final[Mapping[str, Callable[[], FluvioClient]]] = {
    f"PyPI fluvio {NEWEST}": python_client,
    f"PyPI fluvio {OLDER}": lambda: python_client(OLDER),
    f"npm @fluvio/client {NPM}": npm_client,
    f"crate fluvio {CRATE}": rust_client,
}

# What tests/e2e/test_fluvio.py tries with each of them; docs/clients.md shows it.
COLUMNS: Final = ("speaks", "produce", "stream", "topics", "offsets of consumers", "codecs")
_CODECS: Final = "gzip, snappy, lz4, zstd"
TRIED: Final[Mapping[str, tuple[str, ...]]] = {
    f"PyPI fluvio {NEWEST}": ("Fluvio 0.17.3", "yes", "yes", "yes", "yes", _CODECS),
    f"PyPI fluvio {OLDER}": ("Fluvio 0.12.1", "yes", "yes", "yes", "it has none", "it offers none"),
    f"npm @fluvio/client {NPM}": (
        "Fluvio 0.11.11",
        *("yes", "yes", "yes", "it has none", "it offers none"),
    ),
    f"crate fluvio {CRATE}": ("Fluvio 0.18.1", "yes", "yes", "yes", "yes", _CODECS),
}


if __name__ == "__main__":  # make rust-client
    try:
        print(*rust_client().command)
    except Unavailable as unavailable:
        sys.exit(str(unavailable))

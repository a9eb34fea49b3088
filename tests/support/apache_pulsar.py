"""Apache Pulsar itself as a child process: standalone, one node, loopback.

Tests of the Pulsar door are calibrated on it and benchmarks compare with it. The jars come from
Maven Central by coordinates (maven.py): 230 MB, once.
"""

import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.support.maven import Unavailable, classpath
from tests.support.ports import free_port
from tests.support.process import BrokerProcess

VERSION = "4.0.0"
COORDINATES = (f"org.apache.pulsar:pulsar-broker:{VERSION}",)
_OPENED = (
    *("java.base/java.nio", "java.base/sun.net", "java.base/java.lang"),
    *("java.base/jdk.internal.platform", "java.management/sun.management"),
    "jdk.management/com.sun.management.internal",
)
JVM = [
    *("-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-Dio.netty.tryReflectionSetAccessible=true"),
    *(word for one in _OPENED for word in ("--add-opens", f"{one}=ALL-UNNAMED")),
]
SETTINGS = """\
brokerServicePort={pulsar}
webServicePort={http}
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
clusterName=standalone
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
allowLoopback=true
acknowledgmentAtBatchIndexLevelEnabled=true
"""


class ApachePulsar(BrokerProcess):
    """Broker and storage in one process, with a heap of 1 GB."""

    label = "apache-pulsar"
    start_deadline_s = 300.0  # half a minute on an idle machine

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, env)
        self.pulsar_port = free_port()
        self.http_port = free_port()
        self._bookie_port = free_port()
        self._settings = self.folder / "standalone.conf"
        self._jars = classpath(*COORDINATES)

    def command(self) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("java is not installed")
        main = "org.apache.pulsar.PulsarStandaloneStarter"
        return [
            *(java, *JVM, "-cp", self._jars, main, "--config", str(self._settings)),
            *("--bookkeeper-dir", str(self.folder / "bookkeeper")),
            *("--metadata-dir", str(self.folder / "metadata")),
            *("--advertised-address", "127.0.0.1", "--bookkeeper-port", str(self._bookie_port)),
            *("-nss", "-nfw"),
        ]

    def prepare(self) -> None:
        text = SETTINGS.format(pulsar=self.pulsar_port, http=self.http_port)
        self._settings.write_text(text)

    def answers(self) -> bool:
        """Whether the namespace that clients use by default is there."""
        url = f"http://127.0.0.1:{self.http_port}/admin/v2/namespaces/public/default"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

"""Apache Kafka itself as a child process: one node, KRaft, loopback.

Client tests are calibrated against it and benchmarks compare with it. The jars come from Maven
Central by coordinates (maven.py).
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.maven import Unavailable, classpath
from tests.support.ports import free_port
from tests.support.process import BrokerProcess
from tests.support.program import ProgramDied

VERSION = "4.3.1"
COORDINATES = (
    f"org.apache.kafka:kafka_2.13:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
CLUSTER_ID = "a2Fmc2NhbGUtY29tcGFyZQ"

# What Kafka's own start script passes for a broker, with its default heap.
JVM = [
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
]

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
"""

LOGGING = """\
status=error
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c %m%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=OUT
"""


class ApacheKafka(BrokerProcess):
    """One combined broker and controller with Kafka's default settings and a heap of 1 GB."""

    label = "apache-kafka"
    more_settings = ""  # these come last, so they beat the ones above

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, env)
        self.data = self.folder / "data"
        self._settings = self.folder / "server.properties"
        self._logging = self.folder / "log4j2.properties"
        self._controller_port = free_port()
        self._jars = classpath(*COORDINATES)

    def command(self) -> list[str]:
        return [*self._java(), *JVM, "-cp", self._jars, "kafka.Kafka", str(self._settings)]

    def prepare(self) -> None:
        self._settings.write_text(
            SETTINGS.format(port=self.port, controller=self._controller_port, data=self.data)
            + self.more_settings
        )
        self._logging.write_text(LOGGING)
        if not (self.data / "meta.properties").exists():
            self._format()

    def _format(self) -> None:
        tool = [*self._java(), "-cp", self._jars, "kafka.tools.StorageTool", "format"]
        run = subprocess.run(
            [*tool, "--cluster-id", CLUSTER_ID, "--config", str(self._settings)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if run.returncode:
            raise ProgramDied(f"kafka storage format: {run.stdout}\n{run.stderr}")

    def _java(self) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("java is not installed")
        return [java, f"-Dlog4j2.configurationFile={self._logging}"]


NODE = """\
node.id={number}
controller.quorum.voters={voters}
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
group.initial.rebalance.delay.ms=0
"""


class _Node(ApacheKafka):
    """One of several nodes, with a small heap."""

    def command(self) -> list[str]:
        small = [word for word in JVM if not word.startswith(("-Xmx", "-Xms"))]
        jvm = ["-Xmx320M", "-Xms128M", *small]
        return [*self._java(), *jvm, "-cp", self._jars, "kafka.Kafka", str(self._settings)]


class ApacheCluster:
    """Several combined brokers and controllers; each partition is on up to three of them."""

    def __init__(self, count: int) -> None:
        self.nodes = [_Node() for _ in range(count)]
        voters = ",".join(
            f"{number}@127.0.0.1:{node._controller_port}"
            for number, node in enumerate(self.nodes, 1)
        )
        replicas = min(3, count)
        for number, node in enumerate(self.nodes, 1):
            node.more_settings = NODE.format(
                number=number, voters=voters, replicas=replicas, in_sync=max(1, replicas - 1)
            )

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def __enter__(self) -> "ApacheCluster":
        for node in self.nodes:
            node.begin()
        for node in self.nodes:
            node.wait_until(lambda node=node: node.running and node.answers())  # type: ignore[misc]
        return self

    def close(self) -> None:
        """Kill all nodes and remove their folders."""
        for node in self.nodes:
            node.close()

    def __exit__(self, *_: object) -> None:
        self.close()

"""`kafscale proxy` as a child process, before an Apache Kafka of the tests.

Next door: a load for it, and the judge (proxy_load.py).
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import ApacheCluster, ApacheKafka
from tests.support.process import BrokerProcess


class ProxyProcess(BrokerProcess):
    """A proxy on free ports of loopback."""

    label = "kafscale-proxy"

    def __init__(
        self,
        upstream: str,
        mapping: Mapping[str, Any],
        folder: Path | None = None,
        number: int = 0,
        ledger: str = "",
        **more: Any,
    ) -> None:
        """`mapping`: as the configuration has it. `more`: further sections of it.

        `ledger`: what proxies that know of each other have in common.
        """
        super().__init__(folder)
        self.upstream = upstream
        self.config = self.folder / "proxy.yaml"
        listen = {"address": f"127.0.0.1:{self.port}", **more.pop("listen", {})}
        shared = {"ledger_topic": f"__proxy_{ledger or self.port}"}
        self.tree = {"id": number, "listen": listen, "mapping": mapping, **shared, **more}

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "kafscale.cli.main", "proxy"),
            *("--upstream", self.upstream, "--config", str(self.config)),
        ]

    def environment(self) -> dict[str, str]:
        return {"PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", "")}

    def prepare(self) -> None:
        self.config.write_text(json.dumps(self.tree))  # JSON is YAML


class ProxiedKafka(ProxyProcess):
    """An Apache Kafka whose every topic is mapped, behind a proxy. Only the proxy is killed."""

    label = "proxied-kafka"

    def __init__(self, folder: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self.behind = self.make_behind()
        self._is_begun = False
        mapping = {"virtual_partitions": 3, "physical_partitions": 1}
        super().__init__(self.behind.bootstrap, mapping, folder)

    def make_behind(self) -> ApacheKafka | ApacheCluster:
        """What the proxy stands before."""
        return ApacheKafka()

    def begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self.behind.__enter__()
        super().begin()

    def close(self) -> None:
        super().close()
        self.behind.close()


class ProxiedCluster(ProxiedKafka):
    """The same with three nodes behind."""

    label = "proxied-cluster"

    def make_behind(self) -> ApacheCluster:
        return ApacheCluster(3)

"""The REST catalog as a process, a reader that asks it all the time, and what both must show.

The reader is PyIceberg: of a table that rows are only added to it never sees fewer rows than
before, nor a row twice. That the catalog or the bucket does not answer for a while is no finding.
Next door: the catalog's tables against those that lie in the bucket (judge.py).
"""

import os
import sys
import time
from collections import Counter

from pyiceberg.catalog import load_catalog

from tests.faults.cluster import NAMESPACE, Cluster
from tests.faults.history import History
from tests.faults.s3_proxy import S3Proxy
from tests.faults.tables.runners import STORE
from tests.faults.workers import Worker
from tests.support.ports import free_port, is_open
from tests.support.program import Program
from tests.support.seaweed import ACCESS_KEY, SECRET_KEY

TOKEN = "of-the-tests"
PAUSE_S = 0.3
LAST_TRIES = 20


class CatalogProcess(Program):
    """`kafscale catalog serve`, behind a door to the bucket of its own."""

    label = "catalog"

    def __init__(self, cluster: Cluster) -> None:
        folder = cluster.folder / "catalog"
        folder.mkdir(parents=True)
        super().__init__(folder)
        self.port = free_port()
        self.s3 = S3Proxy(cluster.wires, cluster.s3.port, "catalog", cluster.history, cluster.seed)
        self._tokens = folder / "tokens.txt"
        self._tokens.write_text(f"{TOKEN}\n")
        self._environment = {
            **os.environ,
            **cluster.s3.broker_environment(NAMESPACE),
            "KAFSCALE_S3_ENDPOINT": self.s3.endpoint,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.launch(
            [sys.executable, "-m", "kafscale.cli.main", "catalog", "serve", "--store", STORE,
             "--port", str(self.port), "--token-file", str(self._tokens)],
            self._environment,
        )  # fmt: skip
        self.wait_until(lambda: is_open(self.port))

    def close(self) -> None:
        self.kill()
        self.s3.close()


class CatalogReader(Worker):
    """Reads one table again and again, and once more when told to finish. `seen` counts."""

    def __init__(self, catalog: CatalogProcess, history: History, table: str) -> None:
        super().__init__("reader of the catalog", {}, history)
        self._catalog = catalog
        self._table = f"{NAMESPACE}.{table}"
        self._most = 0
        self.seen = 0

    def work(self) -> None:
        tries_left = LAST_TRIES
        while True:
            is_last = self.stopping.is_set()
            try:
                places = self._read()
            except Exception:  # of any library below: nothing answered just now
                tries_left -= is_last
                if not tries_left:
                    raise
                time.sleep(PAUSE_S)
                continue
            self._judge(places)
            if is_last:
                return
            self.stopping.wait(PAUSE_S)

    def _judge(self, places: list[tuple[int, int]]) -> None:
        self.seen += 1
        if twice := [place for place, count in Counter(places).items() if count > 1]:
            self.trouble(f"{self._table}: {len(twice)} rows come twice, such as {twice[0]}")
        if len(places) < self._most:
            self.trouble(f"{self._table}: {len(places)} rows after {self._most}")
        self._most = max(self._most, len(places))

    def _read(self) -> list[tuple[int, int]]:
        found = load_catalog(
            "topics", type="rest", uri=self._catalog.url, token=TOKEN,
            **{"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY,
               "s3.connect-timeout": "5", "s3.request-timeout": "5"},
        ).load_table(self._table)  # fmt: skip
        rows = found.scan(selected_fields=("_partition", "_offset")).to_arrow()
        columns = (rows[name].to_pylist() for name in ("_partition", "_offset"))
        return list(zip(*columns, strict=True))

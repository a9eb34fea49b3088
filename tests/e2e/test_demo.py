"""The demo does what it says, and leaves no process behind."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from kafscale.cli.serving import demo_orders

pytestmark = pytest.mark.slow


def test_the_demo_ends_with_a_table_and_a_report(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafscale.cli.main", "demo", "--dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--orders", "3000"], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = QueryBuilder().register("orders", DeltaTable(str(tmp_path / "orders_table")))
    rows = pa.table(table.execute("select order_id from orders").read_all())
    assert sorted(rows["order_id"].to_pylist()) == list(range(3000))
    assert "<svg" in (tmp_path / "report.html").read_text("utf-8")
    assert "revenue" in done.stdout
    ours = str(tmp_path)
    left = [one for one in psutil.process_iter(["environ"]) if ours in str(one.info["environ"])]
    _, alive = psutil.wait_procs([one for one in left if one.pid != os.getpid()], timeout=60)
    assert alive == []
    again = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert again.returncode == 1
    assert "has a demo already" in again.stderr


def test_orders_are_the_same_for_the_same_seed() -> None:
    first = list(demo_orders.orders(500, 10**12))
    assert first == list(demo_orders.orders(500, 10**12))
    assert len(first) == 500
    assert first != list(demo_orders.orders(500, 10**12, seed=2))
    assert [order.timestamp_ms for order in first] == sorted(o.timestamp_ms for o in first)

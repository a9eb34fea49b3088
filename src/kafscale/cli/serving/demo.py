"""`kafscale demo`: the whole way of a record in one command, on this machine.

Here: a broker of its own, a week of orders through a Kafka client, then the commands a person
would type: export to a Delta table, a question in SQL, a report. Each is shown before it runs.
Next door: the orders (demo_orders.py).
"""

import argparse
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafscale.admin.brokers.client import client_settings
from kafscale.admin.records.producing import Delivery, OutgoingRecord, open_producer
from kafscale.cli.serving import demo_orders
from kafscale.cli.terminal.errors import CommandError
from kafscale.system import SystemClock

_READY_WITHIN_S: Final = 30.0
_QUESTION: Final = (
    "select value.country, count(*) as orders, round(sum(value.quantity * value.price)) as revenue "
    "from topic.orders group by value.country order by revenue desc limit 5"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--dir", type=Path, default=Path("demo"), help="folder of the demo (default: ./demo)"
    )
    parser.add_argument(
        "--orders",
        type=int,
        default=200_000,
        metavar="N",
        help="number of orders (default: 200000)",
    )


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    folder = args.dir.absolute()
    if (folder / "data").exists():
        raise CommandError(f"{folder} has a demo already: remove it or give another --dir")
    folder.mkdir(parents=True, exist_ok=True)
    port, metrics_port = _free_ports(2)
    server = f"127.0.0.1:{port}"
    with _broker(folder, port, metrics_port):
        print(f"A broker runs on {server}; its bucket is {folder / 'data'}\n", flush=True)
        _type("topics", "create", "orders", "--partitions", "6", "--bootstrap", server)
        _stream(server, args.orders)
        _type("consume", "orders", "--count", "3", "--bootstrap", server)
        store = f"file://{folder / 'data'}"
        _type(
            *("pipeline", "export", "--store", store, "--topic", "orders"),
            *("--format", "delta", "--table", str(folder / "orders_table")),
            *("--value-format", "json", "--value-schema", demo_orders.SCHEMA),
            *("--partition-by", "day", "--master", "local[*]"),
        )
        _type(
            *("sql", "--store", store, "--value-format", "json"),
            *("--value-schema", demo_orders.SCHEMA, _QUESTION),
        )
        report = folder / "report.html"
        _type("pipeline", "stats", "--store", store, "--html", str(report))
    print(f"\nThe table: {folder / 'orders_table'}\nThe report: file://{report}")
    return 0


def _type(*words: str) -> None:
    """Show a command and run it, as a person would."""
    shown = " ".join(
        word if word.isprintable() and " " not in word else f"'{word}'" for word in words
    )
    print(f"$ kafscale {shown}", flush=True)
    done = subprocess.run([sys.executable, "-m", "kafscale.cli.main", *words], check=False)
    if done.returncode:
        raise CommandError(f"that ended with {done.returncode}")
    print(flush=True)


def _stream(server: str, count: int) -> None:
    """Send the orders with an ordinary producer."""
    clock = SystemClock()
    settings = {"linger.ms": 50, "compression.type": "lz4", "message.timeout.ms": 60_000}
    producer = open_producer(client_settings(server, "kafscale-demo", {}, **settings))
    delivery = Delivery(producer, "orders")
    orders = demo_orders.orders(count, clock.now_ms())
    delivery.send((OutgoingRecord(*order) for order in orders), lambda _sent: None)
    delivery.flush()
    delivery.check()
    print(f"{count:,} orders of the last week sent in {clock.elapsed_s():.1f} s\n", flush=True)


@contextmanager
def _broker(folder: Path, port: int, metrics_port: int) -> Iterator[None]:
    """Run a broker in a process of its own; SIGTERM stops it at the end."""
    with (folder / "broker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kafscale.cli.main", "serve"],
            env={
                **os.environ,
                "KAFSCALE_BROKER_HOST": "127.0.0.1",
                "KAFSCALE_BROKER_PORT": str(port),
                "KAFSCALE_METRICS_PORT": str(metrics_port),
                "KAFSCALE_DATA_DIR": str(folder / "data"),
            },
            stdout=log,
            stderr=log,
        )
    try:
        _wait(process, f"http://127.0.0.1:{metrics_port}/ready", folder)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    clock = SystemClock()
    while clock.elapsed_s() < _READY_WITHIN_S:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise CommandError(f"the broker did not start: see {folder / 'broker.log'}")


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports

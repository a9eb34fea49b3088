"""Secrets are planted wherever they can be configured or sent, and looked for wherever they could
show: log lines at level debug in both forms, metrics, pages, errors, tools, answers, the bucket.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafscale.model.errors import KafscaleError
from kafscale.objects.store import ObjectStore
from kafscale.settings.loading import load
from kafscale.settings.stores import open_store
from kafscale.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.support import seaweed, wire
from tests.support.broker import KafscaleProcess
from tests.unit.gateways.kafka.caller import Caller

S3_SECRET = seaweed.SECRET_KEY
TOKEN = "planted-session-token"
ETCD_PASSWORD = "planted-etcd-password"
CLIENT_PASSWORD = "planted-client-password"
PLANTED = (S3_SECRET, TOKEN, ETCD_PASSWORD, CLIENT_PASSWORD)
_BROKER = 4
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36


def found_in(text: str | bytes) -> list[str]:
    """The secrets that this text shows."""
    raw = text.encode() if isinstance(text, str) else text
    return [one for one in PLANTED if one.encode() in raw]


@pytest.fixture(scope="module")
def server() -> Iterator[seaweed.SeaweedServer]:
    if seaweed.binary() is None:
        pytest.skip("there is no SeaweedFS here")
    started = seaweed.SeaweedServer()
    try:
        yield started.start()
    finally:
        started.kill()


def send_password(port: int) -> None:
    """What a client does that wants to log in, and what one does that is broken."""
    plain = f"\0alice\0{CLIENT_PASSWORD}".encode()
    named = wire.frame(_SASL_HANDSHAKE, 1, 1, wire.string("PLAIN"))
    for frame in (
        named + wire.frame(_SASL_AUTHENTICATE, 0, 2, len(plain).to_bytes(4, "big") + plain),
        len(plain).to_bytes(4, "big") + plain,
        wire.frame(3, 1, 3, plain),
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(frame)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass


def show_pages(broker: KafscaleProcess) -> str:
    """Everything that the page for operators says, whatever is asked for."""
    said = []
    for path in ("/", "/health", "/ready", "/metrics", "/config", "/env", "/debug"):
        try:
            page = f"http://127.0.0.1:{broker.metrics_port}{path}"
            with urllib.request.urlopen(page, timeout=30) as answer:
                said.append(answer.read().decode())
        except urllib.error.HTTPError as problem:
            said.append(problem.read().decode())
    return "\n".join(said)


async def describe_broker(broker: KafscaleProcess) -> str:
    resource = DescribeConfigsResource(_BROKER, "0", None)
    async with Caller(broker.port) as caller:
        answer = await caller.ask(
            DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True), 4
        )
    assert len(answer.results[0].configs) > 10
    return repr(answer)


def run_doctor(env: dict[str, str]) -> str:
    command = [sys.executable, "-m", "kafscale.cli.main", "doctor", "--json"]
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout
    return done.stdout + done.stderr


async def read_bucket(store: ObjectStore) -> bytes:
    return b"".join([bytes(await store.read(one.key)) for one in await store.find("")])


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_running_broker_shows_no_secret(
    server: seaweed.SeaweedServer, form: str, tmp_path: Path
) -> None:
    env = server.broker_environment(f"secrets-{form}") | {
        "KAFSCALE_LOG_LEVEL": "debug",
        "KAFSCALE_LOG_FORMAT": form,
        "KAFSCALE_AUDIT_FILE": str(tmp_path / "audit.log"),
    }
    with KafscaleProcess(env=env) as broker:
        client = {"bootstrap.servers": broker.bootstrap, "client.id": "planter"}
        admin = AdminClient(client)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        producer = Producer(client)
        producer.produce("orders", b"an order")
        assert producer.flush(30) == 0
        send_password(broker.port)
        assert found_in(show_pages(broker)) == []
        assert found_in(asyncio.run(describe_broker(broker))) == []
        assert found_in(run_doctor({**broker.environment(), **env})) == []
        broker.stop()
        logged = broker.output.read_text()
        assert "broker_stopped" in logged
        assert found_in(logged) == []
        (line,) = (json.loads(row) for row in (tmp_path / "audit.log").read_text().splitlines())
        assert (line["kind"], line["api"], line["resources"]) == (
            "change",
            "CreateTopics",
            ["orders"],
        )
        assert (line["principal"], line["client_id"]) == ("User:ANONYMOUS", "planter")
        for file in (*tmp_path.iterdir(), *broker.data.rglob("*")):
            assert not file.is_file() or found_in(file.read_bytes()) == [], file
        config = load(None, env, {})
        assert found_in(asyncio.run(_stored(config))) == []


async def _stored(config: object) -> bytes:
    store = open_store(config)  # type: ignore[arg-type]
    try:
        raw = await read_bucket(store)
    finally:
        await store.aclose()
    assert b"an order" in raw
    return raw


def test_a_broker_that_cannot_start_shows_no_secret(tmp_path: Path) -> None:
    env = {
        "KAFSCALE_S3_BUCKET": "planted",
        "KAFSCALE_S3_ENDPOINT": "http://127.0.0.1:9",
        "KAFSCALE_S3_ACCESS_KEY": "planted",
        "KAFSCALE_S3_SECRET_KEY": S3_SECRET,
        "KAFSCALE_S3_SESSION_TOKEN": TOKEN,
        "KAFSCALE_S3_MAX_RETRIES": "0",
        "KAFSCALE_ETCD_ENDPOINTS": "127.0.0.1:9",
        "KAFSCALE_ETCD_USERNAME": "kafscale",
        "KAFSCALE_ETCD_PASSWORD": ETCD_PASSWORD,
        "KAFSCALE_DATA_DIR": str(tmp_path),
        "KAFSCALE_LOG_LEVEL": "debug",
    }
    said = run_doctor(env)
    assert '"fail"' in said
    assert found_in(said) == []
    command = [sys.executable, "-X", "dev", "-m", "kafscale.cli.main", "serve"]
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert found_in(done.stdout + done.stderr) == []


def test_a_store_that_refuses_names_no_secret(server: seaweed.SeaweedServer) -> None:
    env = server.broker_environment("refused") | {"KAFSCALE_S3_SECRET_KEY": f"{S3_SECRET}-wrong"}

    async def write() -> str:
        store = open_store(load(None, env, {}))
        try:
            await store.put_new("a", [b"1"])
        except KafscaleError as problem:
            return f"{problem} {problem!r} {problem.__cause__!r}"
        finally:
            await store.aclose()
        raise AssertionError("a wrong key was taken")

    assert found_in(asyncio.run(write())) == []

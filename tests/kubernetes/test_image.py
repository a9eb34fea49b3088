"""The image of deploy/Dockerfile, run as Kubernetes would run it. `make image` builds it."""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support import image
from tests.support.ports import free_port

pytestmark = [pytest.mark.kubernetes, pytest.mark.real_time]

PATIENCE_S = 120


class Container:
    """One container of the image, by runc."""

    def __init__(self, folder: Path, args: list[str], env: dict[str, str]) -> None:
        self._state = ["runc", "--root", str(folder / "state")]
        self._id = f"kafscale-test-{os.getpid()}"
        bundle = folder / "bundle"
        bundle.mkdir()
        config: dict[str, Any] = json.loads((image.BUNDLE / "config.json").read_text())
        config["root"]["path"] = str(image.BUNDLE / "rootfs")
        (bundle / "config.json").write_text(json.dumps(config))
        image.configure(bundle, args, env)
        self.log = folder / "log.txt"
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [*self._state, "run", "--bundle", str(bundle), self._id], stdout=out, stderr=out
            )

    def wait(self) -> int:
        return self._process.wait(PATIENCE_S)

    def says(self, *command: str) -> str:
        """What a command prints inside."""
        asked = [*self._state, "exec", self._id, *command]
        run = subprocess.run(asked, capture_output=True, text=True, check=False)
        return run.stdout + run.stderr

    def stop(self) -> int:
        subprocess.run([*self._state, "kill", self._id, "TERM"], check=True)
        return self.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            subprocess.run([*self._state, "kill", self._id, "KILL"], check=False)
            self.wait()


@pytest.fixture
def ports() -> tuple[int, int]:
    if os.geteuid() != 0 or not (image.BUNDLE / "config.json").exists():
        pytest.skip("the image is not built: run `make image` once (Debian, root, minutes)")
    return free_port(), free_port()


@pytest.fixture
def broker(tmp_path: Path, ports: tuple[int, int]) -> Iterator[Container]:
    env = {
        "KAFSCALE_BROKER_HOST": "127.0.0.1",
        "KAFSCALE_BROKER_PORT": str(ports[0]),
        "KAFSCALE_METRICS_PORT": str(ports[1]),
    }
    made = Container(tmp_path, ["serve"], env)
    try:
        yield made
    finally:
        made.close()


def test_a_broker_serves_as_a_user_without_rights_on_a_root_that_it_cannot_write(
    broker: Container, ports: tuple[int, int]
) -> None:
    until_answered(f"http://127.0.0.1:{ports[1]}/ready", broker)
    settings = {"bootstrap.servers": f"127.0.0.1:{ports[0]}"}
    producer = Producer(settings)
    producer.produce("orders", b"hello")
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    end = time.monotonic() + PATIENCE_S
    while (message := consumer.poll(1)) is None or message.error():
        assert time.monotonic() < end, broker.log.read_text()[-2000:]
    assert message.value() == b"hello"
    consumer.close()
    assert broker.says("id", "-u").strip() == "10001"
    assert "Read-only" in broker.says("touch", "/opt/kafscale/x")
    assert broker.stop() == 0, broker.log.read_text()[-2000:]


def test_the_console_runs_on_a_root_that_it_cannot_write(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    args = [
        "console",
        "--host=127.0.0.1",
        f"--port={ports[0]}",
        f"--bootstrap=127.0.0.1:{ports[1]}",
    ]
    login = {"KAFSCALE_UI_USERNAME": "admin", "KAFSCALE_UI_PASSWORD": "not-a-secret"}
    console = Container(tmp_path, args, login)
    try:
        until_answered(f"http://127.0.0.1:{ports[0]}/health", console)
        assert console.stop() == 0, console.log.read_text()[-2000:]
    finally:
        console.close()


def test_the_image_has_the_operator_and_lists_its_packages(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    printed = Container(tmp_path, ["operator", "crds"], {})
    try:
        assert printed.wait() == 0
        assert "KafscaleUser" in printed.log.read_text()
    finally:
        printed.close()
    listed = json.loads((image.BUNDLE / "rootfs/opt/kafscale/bom.cdx.json").read_text())
    assert listed["metadata"]["component"]["name"] == "kafscale"
    assert {"aiohttp", "grpcio"} <= {one["name"] for one in listed["components"]}


def until_answered(url: str, container: Container) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            assert time.monotonic() < end, container.log.read_text()[-2000:]
            time.sleep(0.2)
        else:
            return

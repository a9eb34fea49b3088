"""What the doctor looks at."""

import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from kafscale.admin import diagnosis
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.settings.config import Config
from kafscale.settings.sections import BrokerSection, ConsumerSection
from kafscale.settings.stores import open_metadata
from kafscale.system import SystemClock


class MetricsPage(BaseHTTPRequestHandler):
    """What a broker shows: its metrics, and whether it is ready."""

    readiness: ClassVar = b'{"ready": true, "reasons": [], "checks": {}}'

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.readiness if self.path == "/ready" else b"kafscale_up 1\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def page() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), MetricsPage)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_port_is_free_or_any() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert diagnosis.check_port("clients", "127.0.0.1", port, running=False).verdict == "ok"
    assert diagnosis.check_port("clients", "127.0.0.1", 0, running=False).text.startswith(
        "any free"
    )


def test_a_taken_port_is_a_failure_unless_it_is_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        foreign = diagnosis.check_port("clients", "127.0.0.1", port, running=False)
        assert foreign == ("fail", "clients", f"127.0.0.1:{port} is in use by another program")
        ours = diagnosis.check_port("clients", "127.0.0.1", port, running=True)
        assert ours.verdict == "ok"
        assert "a kafscale broker is running" in ours.text


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    result = diagnosis.check_port("clients", "192.0.2.1", 9092, running=False)
    assert result.verdict == "fail"
    assert result.text.startswith("cannot listen on 192.0.2.1:9092")


def test_a_running_broker_is_known_by_its_metrics(page: int) -> None:
    assert diagnosis.broker_answers("127.0.0.1", page)
    assert diagnosis.broker_answers("0.0.0.0", page)
    assert not diagnosis.broker_answers("127.0.0.1", 0)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert not diagnosis.broker_answers("127.0.0.1", bound.getsockname()[1])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (MetricsPage.readiness, ("ok", "broker", "running and ready")),
        (
            b'{"ready": false, "reasons": ["store: the disk is full", "fleet: no lease"]}',
            ("fail", "broker", "running, not ready: store: the disk is full; fleet: no lease"),
        ),
    ],
)
def test_a_running_broker_is_asked_whether_it_is_ready(
    page: int, monkeypatch: pytest.MonkeyPatch, said: bytes, expected: tuple[str, str, str]
) -> None:
    monkeypatch.setattr(MetricsPage, "readiness", said)
    assert diagnosis.check_running("127.0.0.1", page) == expected


def test_a_broker_that_says_nothing_sensible_is_a_warning(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MetricsPage, "readiness", b"no such page")
    assert diagnosis.check_running("127.0.0.1", page).verdict == "warn"


@pytest.mark.parametrize(
    ("free", "holds_objects", "verdict"),
    [(2**40, True, "ok"), (2**30, True, "warn"), (2**30, False, "ok"), (2**20, False, "fail")],
)
def test_little_room_is_a_warning_and_none_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, holds_objects: bool, verdict: str
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert diagnosis.check_disk(tmp_path / "not" / "yet", holds_objects).verdict == verdict


def test_too_few_open_files_are_a_warning() -> None:
    assert diagnosis.check_open_files(2**40).verdict == "warn"
    assert diagnosis.check_open_files(1).verdict == "ok"


async def test_a_data_folder_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "data"
    config = Config(broker=BrokerSection(data_dir=str(folder)))
    for result in (
        await diagnosis.check_store(config),
        await diagnosis.check_metadata(config, False),
    ):
        assert result.verdict == "ok"
        assert result.text == f"{folder} does not exist yet and can be created"
    assert not (tmp_path / "a").exists()


async def test_a_metadata_file_that_is_half_rebuilt_is_told(tmp_path: Path) -> None:
    config = Config(broker=BrokerSection(data_dir=str(tmp_path)))
    assert (await diagnosis.check_metadata(config, False)).verdict == "ok"
    metadata = open_metadata(config, SystemClock())
    await metadata.commit([Put(keys.RECOVERY, b"{}")])
    await metadata.aclose()
    result = await diagnosis.check_metadata(config, False)
    assert result.verdict == "fail"
    assert "half rebuilt" in result.text


async def test_memory_is_a_warning() -> None:
    assert (await diagnosis.check_store(Config(use_memory_s3=True))).verdict == "warn"


def test_a_setting_without_effect_is_a_warning(tmp_path: Path) -> None:
    config = Config(
        broker=BrokerSection(data_dir=str(tmp_path), port=0, metrics_port=0),
        consumer=ConsumerSection(rebalance_timeout_ms=3000),
    )
    first = next(iter(diagnosis.check_all(config)))
    assert first == (
        "warn",
        "settings",
        "consumer.rebalanceTimeoutMs has no effect: every client chooses it",
    )

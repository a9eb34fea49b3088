"""A disk that is full: a retriable refusal, one clear line, nothing lost, recovery by itself."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from kafscale.admin.brokers.members import why_not_ready
from tests.support.broker import KafscaleProcess

SIZE = 24 << 20
VALUE = b"x" * 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be made here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_refuses_producers_and_loses_nothing(small_disk: Path) -> None:
    filler = small_disk / "filler"
    data = small_disk / "data"
    with KafscaleProcess(env={"KAFSCALE_DATA_DIR": str(data)}) as broker:
        acknowledged: dict[int, int] = {}
        refused: list[KafkaError] = []
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 240_000,
                "log_level": 0,
            }
        )

        def told(number: int):  # type: ignore[no-untyped-def]
            def tell(error: KafkaError | None, message: object) -> None:
                if error is None:
                    acknowledged[number] = message.offset()  # type: ignore[attr-defined]
                else:
                    refused.append(error)

            return tell

        def produce(numbers: range) -> None:
            for number in numbers:
                value = b"%08d" % number + VALUE
                producer.produce("t", value, partition=0, on_delivery=told(number))

        produce(range(100))
        producer.produce("other", b"so that it exists")
        assert producer.flush(120) == 0
        filler.write_bytes(bytes(0))
        with filler.open("wb", buffering=0) as disk_hog:
            while True:
                try:
                    disk_hog.write(bytes(1 << 16))
                except OSError:
                    break
        produce(range(100, 200))
        assert producer.flush(3) > 0, "nothing may be acknowledged while the disk is full"
        assert len(acknowledged) < 200
        assert broker.running
        assert any("No space left on device" in reason for reason in _reasons(broker))
        _check_command(broker)
        filler.unlink()
        assert producer.flush(120) == 0
        assert refused == []
        assert sorted(acknowledged) == list(range(200))
        log = broker.tail(lines=10_000)
        assert "No space left on device" in log
        assert "Traceback" not in log
        broker.restart()
        assert _read(broker, 200) == [acknowledged[number] for number in range(200)]


def _reasons(broker: KafscaleProcess) -> list[str]:
    """Why the broker is not ready."""
    return why_not_ready(f"http://127.0.0.1:{broker.metrics_port}")


def _check_command(broker: KafscaleProcess) -> None:
    """`kafscale produce` says what it waits for; Ctrl-C ends it with the reason."""
    with subprocess.Popen(
        [sys.executable, "-m", "kafscale.cli.main", "produce", "other", "-b", broker.bootstrap],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as command:
        assert command.stdin is not None
        assert command.stderr is not None
        command.stdin.write("a record\n" * 10)
        command.stdin.flush()  # and it stays open, as a terminal does
        line = command.stderr.readline()
        assert line.startswith("kafscale: 10 records wait: store: the object store cannot be")
        command.send_signal(signal.SIGINT)
        rest = command.stderr.read()
    assert command.returncode == 130
    assert rest.startswith("kafscale: stopped; 10 records were not acknowledged: store: ")


def _read(broker: KafscaleProcess, count: int) -> list[int]:
    """Offsets by number, in the order of the numbers."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "check", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    found: dict[int, int] = {}
    try:
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"only {len(found)} of {count} records are there"
            assert message.error() is None
            number = int(message.value()[:8])
            assert number not in found
            found[number] = message.offset()
    finally:
        consumer.close()
    return [found[number] for number in range(count)]

"""Leaving: what waits is committed and its producers are told, by SIGTERM and by Ctrl-C."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.support.broker import KafscaleProcess
from tests.support.clients.confluent import Confluent
from tests.support.exposition import parse


def buffered_bytes(broker: KafscaleProcess) -> float:
    """What has come in and is not committed."""
    url = f"http://127.0.0.1:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as page:
        found = parse(page.read())
    return sum(value for (name, _), value in found.items() if name == "kafscale_buffer_size_bytes")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_records_that_wait_for_the_flush_timer_are_committed_and_answered(
    how: signal.Signals,
) -> None:
    # The timer would ring long after the end: only leaving can commit these records.
    with KafscaleProcess(env={"KAFSCALE_FLUSH_INTERVAL_MS": "60000"}) as broker:
        outcomes: list[KafkaError | None] = []

        def told(error: KafkaError | None, _: Message) -> None:
            outcomes.append(error)

        Confluent(broker.bootstrap).create_topic("t", 1)
        # Without retries an answer that is lost is an error that is seen. All go in one request.
        settings = {"bootstrap.servers": broker.bootstrap, "retries": 0, "linger.ms": 10_000}
        producer = Producer({**settings, "log_level": 0})
        for number in range(100):
            producer.produce("t", b"%d" % number, on_delivery=told)
        deadline = time.monotonic() + 60
        while not buffered_bytes(broker):
            assert time.monotonic() < deadline, "the records did not arrive"
            producer.flush(0.1)
        assert len(producer) == 100, "nothing is committed before the timer rings"
        os.kill(broker.pid, how)
        assert producer.flush(60) == 0
        assert outcomes == [None] * 100
        assert broker.stop() == 0
        assert "Traceback" not in broker.tail()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_a_silent_store_holds_up_can_be_given_up(
    how: signal.Signals, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = f"s3.endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
        settings = (store, "s3.bucket=b", "s3.accessKey=a", "s3.secretKey=s")
        command = [sys.executable, "-m", "kafscale.cli.main", "serve", "--data-dir", str(tmp_path)]
        for setting in (*settings, "broker.port=0", "broker.metricsPort=0"):
            command += ["--set", setting]
        broker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            silent.settimeout(60)
            question, _ = silent.accept()  # and no answer
            broker.send_signal(how)
            _, said = broker.communicate(timeout=60)
            question.close()
        finally:
            broker.kill()
            broker.wait()
    assert broker.returncode == 0
    assert "Traceback" not in said

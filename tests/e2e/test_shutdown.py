"""Leaving: what waits is committed and its producers are told, by SIGTERM and by Ctrl-C."""

import os
import signal
import time
import urllib.request

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

"""Leaving: what waits is committed and its producers are told, by SIGTERM and by Ctrl-C."""

import os
import signal

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.support.broker import KafscaleProcess


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_records_that_wait_for_the_flush_timer_are_committed_and_answered(
    how: signal.Signals,
) -> None:
    # The timer would ring long after the end: only leaving can commit these records.
    with KafscaleProcess(env={"KAFSCALE_FLUSH_INTERVAL_MS": "60000"}) as broker:
        outcomes: list[KafkaError | None] = []

        def told(error: KafkaError | None, _: Message) -> None:
            outcomes.append(error)

        # Without retries an answer that is lost is an error that is seen.
        producer = Producer({"bootstrap.servers": broker.bootstrap, "retries": 0, "log_level": 0})
        for number in range(100):
            producer.produce("t", b"%d" % number, on_delivery=told)
        assert producer.flush(2) == 100, "nothing is committed before the timer rings"
        os.kill(broker.pid, how)
        assert producer.flush(20) == 0
        assert outcomes == [None] * 100
        assert broker.stop() == 0
        assert "Traceback" not in broker.tail()

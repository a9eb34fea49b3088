"""A task's own producer: rows of Arrow batches through brokers, all of them acknowledged.

Here: settings from options, rows to messages, a rate that is kept, the first failure raised.
Next door: the sink that calls it (sink.py), the replay job (jobs/replay.py).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from kafscale.model.errors import InvalidRecord, InvalidRequest, NotWritten
from kafscale.spark.sink.staging import read_columns

_PREFIX: Final = "kafka."
_FLUSH_S: Final = 300.0
_DEFAULTS: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",  # as Java's clients choose, not as this library does
    "linger.ms": 50,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 65_536,
}
# Settings of Java's producer that people carry along and that mean nothing here.
_MEANINGLESS: Final = frozenset({"key.serializer", "value.serializer", "buffer.memory"})


def settings_of(options: Mapping[str, str]) -> dict[str, Any]:
    """The producer's settings in options `kafka.…`; idempotence may not be switched off."""
    given = {
        name.removeprefix(_PREFIX): value
        for name, value in options.items()
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _MEANINGLESS
    }
    return {**_DEFAULTS, **given, "enable.idempotence": True}


class Pace:
    """Lets a number of records pass per second, in short steps."""

    def __init__(
        self,
        per_second: float,
        now_s: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin now; 0 means as fast as possible."""
        self._per_second = per_second
        self._now_s = now_s
        self._sleep = sleep
        self._began_s = now_s()
        self._passed = 0

    def let_pass(self, count: int) -> None:
        """Wait until so many more may pass."""
        if self._per_second <= 0:
            return
        self._passed += count
        ahead_s = self._passed / self._per_second - (self._now_s() - self._began_s)
        if ahead_s > 0:
            self._sleep(ahead_s)


def produce(
    settings: Mapping[str, Any],
    topic: str | None,
    batches: Iterator[pa.RecordBatch],
    *,
    per_second: float = 0.0,
) -> int:
    """Send every row and wait for the last acknowledgement; gives how many there were."""
    producer = _producer(settings)
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None and not failed:
            failed.append(f"{message.topic()}: {error.str()}")

    pace = Pace(per_second)
    count = 0
    for batch in batches:
        for row in messages(batch, topic):
            if count % 100 == 0:
                pace.let_pass(100)
            _send(producer, row, delivered)
            count += 1
            if count % 1000 == 0:
                producer.poll(0)
                _raise(failed)
    left = producer.flush(_FLUSH_S)
    _raise(failed)
    if left:
        raise NotWritten(f"{left} records were not acknowledged within {_FLUSH_S:.0f} s")
    return count


def _producer(settings: Mapping[str, Any]) -> Any:
    from confluent_kafka import KafkaException, Producer

    try:
        return Producer(dict(settings))
    except KafkaException as refused:
        raise InvalidRequest(f"options {_PREFIX}*: {refused.args[0].str()}") from refused


def _send(producer: Any, row: dict[str, Any], delivered: Callable[[Any, Any], None]) -> None:
    while True:
        try:
            producer.produce(on_delivery=delivered, **row)
        except BufferError:  # full: wait until the brokers have taken some
            producer.poll(0.1)
        else:
            return


def _raise(failed: list[str]) -> None:
    if failed:
        raise NotWritten(failed[0])


def messages(batch: pa.RecordBatch, topic: str | None) -> Iterator[dict[str, Any]]:
    """Every row as the arguments of `produce`; the option goes before the column."""
    names = batch.schema.names
    topics = [topic] * batch.num_rows if topic else batch.column("topic").to_pylist()
    values = batch.column("value").to_pylist()
    nothing = [None] * batch.num_rows
    keys = batch.column("key").to_pylist() if "key" in names else nothing
    headers = batch.column("headers").to_pylist() if "headers" in names else nothing
    partitions = batch.column("partition").to_pylist() if "partition" in names else nothing
    times = nothing
    if "timestamp" in names:
        times = read_columns(batch, -1).rows.times_ms.tolist()
    for to, key, value, more, partition, time_ms in zip(
        topics, keys, values, headers, partitions, times, strict=True
    ):
        if to is None:
            raise InvalidRecord("a row without a topic: the column 'topic' is null")
        row: dict[str, Any] = {"topic": to, "value": value, "key": key}
        if more:
            row["headers"] = [(column["key"], column["value"]) for column in more]
        if partition is not None:
            row["partition"] = partition
        if time_ms is not None and time_ms >= 0:
            row["timestamp"] = time_ms
        yield row

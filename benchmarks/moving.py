"""How long a producer waits while its topic moves: `python -m benchmarks.moving [PARTITIONS...]`.

In this room: one broker on files that flushes every 500 ms, one librdkafka producer that sends
a record to every partition in turn, and a topic that goes to shared logs and back. What is told is
the longest time from sending a record to its acknowledgement, before the move and during it.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.support.broker import KafscaleProcess

_STEADY_S = 5.0
_TURN_S = 0.25
_ARRIVES_WITHIN_S = 300.0


class Traffic:
    """A record for every partition in every turn; remembers how long each took."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._topic = topic
        self._partitions = partitions
        self.waited_s: list[tuple[float, float]] = []  # when sent, how long

    def turn(self) -> None:
        """Send one to each."""
        began_s = time.monotonic()
        for partition in range(self._partitions):
            self._producer.produce(
                self._topic, b"x" * 100, partition=partition, on_delivery=self._told(began_s)
            )
        while time.monotonic() < began_s + _TURN_S:
            self._producer.poll(0.005)

    def _told(self, sent_s: float) -> Callable[[KafkaError | None, Message], None]:
        def told(problem: KafkaError | None, _: Message) -> None:
            if problem is not None:
                raise SystemExit(f"not delivered: {problem}")
            self.waited_s.append((sent_s, time.monotonic() - sent_s))

        return told

    def finish(self) -> None:
        """Wait for all that is on its way."""
        self._producer.flush(60)

    def longest_s(self, since_s: float, until_s: float) -> float:
        """Of all that was sent between these."""
        return max((took for sent, took in self.waited_s if since_s <= sent <= until_s), default=0)


def _place(admin: AdminClient, topic: str, value: str) -> None:
    entry = ConfigEntry("storage.placement", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for one in admin.incremental_alter_configs([resource]).values():
        one.result(30)


def _is_moving(broker: KafscaleProcess, topic: str) -> bool:
    """By the newest descriptor: a look that costs the broker nothing."""
    newest = max(broker.data.rglob(f"{topic}/descriptor-*"), key=lambda path: path.name)
    return json.loads(newest.read_bytes())["moving"] is not None


def measure(partitions: int) -> None:
    """One topic, to shared logs and back."""
    with KafscaleProcess(settings=["storage.flushIntervalMs=500"]) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for one in admin.create_topics([NewTopic("moving", partitions)]).values():
            one.result(30)
        traffic = Traffic(broker.bootstrap, "moving", partitions)
        for value in ("shared", "dedicated"):
            began_s = time.monotonic()
            while time.monotonic() < began_s + _STEADY_S:
                traffic.turn()
            asked_s = time.monotonic()
            _place(admin, "moving", value)
            looked_s = asked_s
            while time.monotonic() < asked_s + _ARRIVES_WITHIN_S:
                traffic.turn()
                if time.monotonic() - looked_s > 1.0:
                    looked_s = time.monotonic()
                    if not _is_moving(broker, "moving"):
                        break
            arrived_s = time.monotonic()
            traffic.finish()
            before = traffic.longest_s(began_s, asked_s - 1.5)
            during = traffic.longest_s(asked_s - 1.5, arrived_s)
            print(
                f"{partitions:5} partitions to {value:9}: "
                f"{before:.2f} s before, {during:.2f} s on the way, arrived within "
                f"{arrived_s - asked_s:.0f} s",
                flush=True,
            )


def main(arguments: Sequence[str]) -> None:
    """Measure each number of partitions."""
    for partitions in [int(one) for one in arguments] or [1, 20, 200]:
        measure(partitions)


if __name__ == "__main__":
    main(sys.argv[1:])

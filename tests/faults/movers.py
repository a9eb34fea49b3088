"""An administrator that moves topics between layouts while they are written, read and attacked.

In this room: asking for moves, one topic after the other, and waiting until all have arrived.
Next door: the topics (places.py). What a move leaves behind in a partition is one offset that holds
nothing, which the judge knows (checker.py).
"""

import random
import time

import msgspec
import obstore
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.faults.history import History
from tests.faults.places import TOPICS
from tests.faults.s3_proxy import direct_store
from tests.faults.workers import QUIET, Reach, Worker

LAYOUTS = {
    "ordinary": {"storage.placement": "dedicated", "physical.partitions": "-1"},
    "virtual": {"storage.placement": "dedicated", "physical.partitions": "1"},
    "shared": {"storage.placement": "shared"},
}
PAUSE_S = (1.0, 5.0)
ARRIVE_S = 90.0


class Mover(Worker):
    """Asks for one topic after the other to move; the broker refuses while a topic still moves."""

    def __init__(
        self, reach: Reach, history: History, bucket: str, namespace: str, seed: int
    ) -> None:
        super().__init__("mover", reach, history)
        self._bucket, self._namespace = bucket, namespace
        self._dice = random.Random(f"{seed} mover")
        self._admin = AdminClient({**reach, **QUIET})

    def work(self) -> None:
        while not self.stopping.wait(self._dice.uniform(*PAUSE_S)):
            self._move(self._dice.choice(TOPICS), self._dice.choice(list(LAYOUTS)))

    def _move(self, topic: str, layout: str) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in LAYOUTS[layout].items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        try:
            self.history.moves += 1  # at most: the broker may refuse
            self._admin.incremental_alter_configs([resource])[resource].result(10)
        except (KafkaException, TimeoutError):
            return  # no answer, or the topic still moves: the mover asks another time

    def wait_until_arrived(self) -> None:
        """Wait until no topic moves any more; a finding if one does not arrive."""
        deadline = time.monotonic() + ARRIVE_S
        while on_the_way := [topic for topic in TOPICS if self._descriptor(topic)["moving"]]:
            if time.monotonic() > deadline:
                self.trouble(f"{on_the_way} have not arrived after {ARRIVE_S:.0f} s")
                return
            time.sleep(0.2)

    def layouts(self) -> list[str]:
        """Where the topics are now, in their order."""
        return [self._descriptor(topic)["layout"] for topic in TOPICS]

    def _descriptor(self, topic: str) -> dict[str, str]:
        """The newest one, asked of the bucket itself."""
        store = direct_store(self._bucket)
        prefix = f"{self._namespace}/{topic}"
        keys = [row["path"] for page in obstore.list(store, prefix) for row in page]
        newest = max(key for key in keys if key.startswith(f"{prefix}/descriptor-"))
        body = bytes(obstore.get(store, newest).bytes())
        return {"moving": "", "layout": "", **msgspec.json.decode(body)}

"""kafka-python of the years between: 1.4 and 2.x, at default settings.

Its first words are the bootstrap address. Next door: how it is asked (lines.py), the versions
before (kafka_python_09.py).
"""

import sys
import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from lines import ANSWER_WITHIN_S, in_time, records, serve, stored


class Member(threading.Thread):
    """A thread of its own: while it joins, it waits for the others, which must be polling."""

    def __init__(self, bootstrap, group, topic):
        threading.Thread.__init__(self)
        self.daemon = True
        self.stop = threading.Event()
        self.found = []
        self.consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )

    def run(self):
        while not self.stop.is_set():
            self.found.extend(_polled(self.consumer, 200))
        self.consumer.close()

    def take(self):
        time.sleep(0.1)
        count = len(self.found)
        taken, self.found[:count] = self.found[:count], []
        return taken


class Driver:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.members = {}

    def produce(self, topic, codec, count):
        return self._produce(topic, count, compression_type=None if codec == "none" else codec)

    def idempotent(self, topic, count):
        return self._produce(topic, count, enable_idempotence=True)

    def _produce(self, topic, count, **settings):
        given = records(count)
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, **settings)
        try:
            sent = [
                producer.send(topic, value=r.value, key=r.key, partition=r.partition) for r in given
            ]
            return [future.get(ANSWER_WITHIN_S).offset for future in sent]
        finally:
            producer.close()

    def consume(self, topic, partitions, count):
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            places = [TopicPartition(topic, int(p)) for p in partitions.split(",")]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            found = []
            for _ in in_time():
                found += _polled(consumer, 500)
                if len(found) >= int(count):
                    break
            return found
        finally:
            consumer.close()

    def subscribe(self, name, group, topic):
        self.members[name] = Member(self.bootstrap, group, topic)
        self.members[name].start()

    def poll(self, name):
        return self.members[name].take()

    def leave(self, name):
        member = self.members.pop(name)
        member.stop.set()
        member.join(ANSWER_WITHIN_S)

    def create(self, topic, partitions):
        self._admin(lambda admin: admin.create_topics([NewTopic(topic, int(partitions), 1)]))

    def delete(self, topic):
        self._admin(lambda admin: admin.delete_topics([topic]))

    def partitions(self, topic, total):
        wanted = {topic: NewPartitions(int(total))}
        self._admin(lambda admin: admin.create_partitions(wanted))

    def alter(self, topic, operation, name, value):
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        answer = self._admin(lambda admin: admin.alter_configs([wanted]))
        for code, _, _, _ in answer.resources:
            if code:
                raise ValueError("error " + str(code))

    def list(self):
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            for topic in consumer.topics():
                yield topic + " " + str(len(consumer.partitions_for_topic(topic) or ()))
        finally:
            consumer.close()

    def _admin(self, act):
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            return act(admin)
        finally:
            admin.close()


def _polled(consumer, timeout_ms):
    began = time.time()
    found = consumer.poll(timeout_ms=timeout_ms)
    lines = [
        stored(m.partition, m.offset, m.key, m.value, m.timestamp)
        for messages in found.values()
        for m in messages
    ]
    # 1.4 returns at once while it has nothing assigned.
    if not lines and time.time() - began < 0.05:
        time.sleep(0.05)
    return lines


if __name__ == "__main__":
    serve(Driver(sys.argv[1]))

"""kafka-python 0.9: the message format of Kafka 0.8, no ApiVersions, no group membership.

Runs on Python 2.7. Next door: how it is asked (lines.py).
"""

import sys
import types

try:
    import multiprocessing
except ImportError:
    # Jython has none. The client asks for two names when it is imported and uses them in a
    # consumer that is not under test.
    multiprocessing = types.ModuleType("multiprocessing")
    multiprocessing.Process = multiprocessing.Manager = None
    sys.modules["multiprocessing"] = multiprocessing

from kafka import KafkaClient, KafkaConsumer, KeyedProducer
from kafka.common import ConsumerTimeout
from kafka.protocol import CODEC_GZIP, CODEC_NONE
from lines import in_time, records, serve, stored

CODECS = {"none": CODEC_NONE, "gzip": CODEC_GZIP}


class Chosen:
    """A partitioner that takes the partition the question names."""

    partition_id = 0

    def __init__(self, partitions):
        pass

    def partition(self, key):
        return self.partition_id


class Driver:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.members = {}

    def produce(self, topic, codec, count):
        given = records(count)
        client = KafkaClient(self.bootstrap)
        producer = KeyedProducer(client, codec=CODECS[codec], partitioner=Chosen)
        try:
            # One call per run of records with one partition and key, as its API has it.
            for partition, key, values in _runs(given):
                Chosen.partition_id = partition
                (answer,) = producer.send_messages(topic, key, *values)
                for at in range(len(values)):
                    yield answer.offset + at
        finally:
            producer.stop()
            client.close()

    def consume(self, topic, partitions, count):
        places = [(topic, int(p), 0) for p in partitions.split(",")]
        consumer = self._consumer(places)
        try:
            found = []
            for _ in in_time():
                found += _polled(consumer)
                if len(found) >= int(count):
                    break
            return found
        finally:
            consumer.close()

    def subscribe(self, name, group, topic):
        # It takes every partition and goes on from what the group has committed.
        self.members[name] = self._consumer([topic], group_id=group, auto_offset_reset="smallest")

    def poll(self, name):
        consumer = self.members[name]
        return _polled(consumer)

    def leave(self, name):
        consumer = self.members.pop(name)
        try:
            consumer.commit()
        finally:
            consumer.close()

    def list(self):
        client = KafkaClient(self.bootstrap)
        try:
            for topic, partitions in client.topic_partitions.items():
                yield topic + " " + str(len(partitions))
        finally:
            client.close()

    def _consumer(self, places, **settings):
        return KafkaConsumer(
            *places, bootstrap_servers=[self.bootstrap], consumer_timeout_ms=200, **settings
        )


def _runs(given):
    run = []
    for record in given:
        if run and (run[0].partition, run[0].key) != (record.partition, record.key):
            yield run[0].partition, run[0].key, [r.value for r in run]
            run = []
        run.append(record)
    if run:
        yield run[0].partition, run[0].key, [r.value for r in run]


def _polled(consumer):
    found = []
    try:
        while True:
            message = consumer.next()
            found.append(stored(message.partition, message.offset, message.key, message.value))
            consumer.task_done(message)
    except ConsumerTimeout:
        return found


if __name__ == "__main__":
    serve(Driver(sys.argv[1]))

"""pykafka at default settings. Next door: how it is asked (lines.py)."""

import sys
import time
import warnings

from lines import in_time, records, serve, stored

with warnings.catch_warnings():
    # It compares versions with a module that is going away.
    warnings.simplefilter("ignore")
    from pykafka import KafkaClient
    from pykafka.common import CompressionType


class Driver:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.members = {}
        self.clients = []  # its parts do not keep the client they belong to

    def produce(self, topic, codec, count):
        given = records(count)
        chosen = []
        producer = self._topic(topic).get_producer(
            compression=getattr(CompressionType, codec.upper()),
            partitioner=lambda partitions, key: partitions[chosen[-1]],
            delivery_reports=True,
            linger_ms=100,
        )
        try:
            sent = []
            for record in given:
                chosen.append(record.partition)
                sent.append(producer.produce(record.value, partition_key=record.key))
            for _ in sent:
                _, refused = producer.get_delivery_report(timeout=60)
                if refused is not None:
                    raise refused
            return [message.offset for message in sent]
        finally:
            producer.stop()

    def consume(self, topic, partitions, count):
        where = self._topic(topic)
        consumer = where.get_simple_consumer(
            partitions=[where.partitions[int(p)] for p in partitions.split(",")],
            consumer_timeout_ms=200,
        )
        try:
            found = []
            for _ in in_time():
                found += _polled(consumer)
                if len(found) >= int(count):
                    break
            return found
        finally:
            consumer.stop()

    def subscribe(self, name, group, topic):
        self.members[name] = self._topic(topic).get_balanced_consumer(
            group.encode(), managed=True, consumer_timeout_ms=200
        )

    def poll(self, name):
        return _polled(self.members[name])

    def leave(self, name):
        consumer = self.members.pop(name)
        consumer.commit_offsets()
        consumer.stop()

    def list(self):
        for name, topic in self._client().topics.items():
            yield name.decode() + " " + str(len(topic.partitions))

    def _client(self):
        self.clients.append(KafkaClient(hosts=self.bootstrap))
        return self.clients[-1]

    def _topic(self, name):
        return self._client().topics[name]


def _polled(consumer):
    found = []
    began = time.time()
    while time.time() - began < 1.0:
        message = consumer.consume()
        if message is None:
            break
        at = message.timestamp
        found.append(
            stored(
                message.partition_id,
                message.offset,
                message.partition_key,
                message.value,
                at if isinstance(at, int) else None,
            )
        )
    return found


if __name__ == "__main__":
    serve(Driver(sys.argv[1]))

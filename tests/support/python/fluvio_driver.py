"""A Fluvio client of PyPI, of any version, as a program: one command, lines of JSON.

It runs in an environment of its own. It ends without Python's clean-up, which the client's threads
do not survive at times.
"""

import json
import os
import sys
import time

import fluvio
from fluvio import Fluvio, FluvioConfig, Offset

ADDRESS, COMMAND, *WORDS = sys.argv[1:]
CONFIG = FluvioConfig.new(ADDRESS)


def show(**fields):
    print(json.dumps(fields), flush=True)


def key_of(record):
    key = record.key()
    return None if bytes(key) == b"No key" else bytes(key).decode()


def show_record(record):
    show(offset=record.offset(), key=key_of(record), value=record.value_string())


def produce(topic, codec, *pairs):
    """Write key=value pairs; the first one, acknowledged, begins a new batch."""
    client = Fluvio.connect_with_config(CONFIG)
    if codec == "default":
        producer = client.topic_producer(topic)
    else:
        made = fluvio.TopicProducerConfigBuilder().compression(getattr(fluvio.Compression, codec))
        made = made.isolation(fluvio.Isolation.ReadCommitted)
        producer = client.topic_producer_with_config(topic, made.build())
    outputs = []
    for pair in pairs:
        key, _, value = pair.partition("=")
        outputs.append(producer.send(key.encode(), value.encode()))
    producer.flush()
    for output in outputs:
        show(offset=output.wait().offset() if output is not None else None)


def read(topic, offset, count):
    """Read so many records of partition 0."""
    client = Fluvio.connect_with_config(CONFIG)
    where = {"beginning": Offset.beginning, "end": Offset.end}
    start = where[offset]() if offset in where else Offset.absolute(int(offset))
    stream = client.partition_consumer(topic, 0).stream(start)
    for _ in range(int(count)):
        show_record(next(stream))


def _configured(topic, consumer=None):
    builder = fluvio.ConsumerConfigExtBuilder(topic)
    builder.disable_continuous()
    builder.offset_start(Offset.beginning())
    if consumer is not None:
        builder.offset_consumer(consumer)
        builder.offset_strategy(fluvio.OffsetManagementStrategy.MANUAL)
    return builder.build()


def features(topic, other):
    """What the newest client can do, one line for each thing."""
    admin = fluvio.FluvioAdmin.connect_with_config(CONFIG)
    admin.create_topic(topic, fluvio.TopicSpec.create().build())
    try:
        admin.create_topic(topic, fluvio.TopicSpec.create().build())
    except Exception as problem:
        show(step="create again", text=str(problem))
    client = Fluvio.connect_with_config(CONFIG)
    for codec in ("Gzip", "Snappy", "Lz4", "Zstd"):
        made = fluvio.TopicProducerConfigBuilder().compression(getattr(fluvio.Compression, codec))
        producer = client.topic_producer_with_config(
            topic, made.isolation(fluvio.Isolation.ReadCommitted).build()
        )
        sent = [producer.send(codec.encode(), b"%d" % number * 50) for number in range(3)]
        producer.flush()
        show(step=codec, offsets=[one.wait().offset() for one in sent])
    show(
        step="to the end",
        offsets=[one.offset() for one in client.consumer_with_config(_configured(topic))],
    )
    stream = client.partition_consumer(topic, 0).stream(Offset.from_end(2))
    show(step="from the end", offsets=[next(stream).offset() for _ in range(2)])
    stream = client.consumer_with_config(_configured(topic, "shop"))
    for record in stream:
        if record.offset() == 4:
            break
    stream.offset_commit()
    stream.offset_flush()
    show(
        step="committed",
        rows=[[one.consumer_id, one.topic, one.partition, one.offset]
              for one in client.consumer_offsets()],
    )  # fmt: skip
    sys.stdin.readline()  # by now another program has seen them, too
    resumed = client.consumer_with_config(_configured(topic, "shop"))
    show(step="resumed", offsets=[one.offset() for one in resumed])
    client.delete_consumer_offset("shop", topic, 0)
    show(step="deleted", rows=len(client.consumer_offsets()))
    tail = client.partition_consumer(topic, 0).stream(Offset.end())
    producer = client.topic_producer(topic)
    producer.send(b"k", b"live").wait()
    show(step="live", value=next(tail).value_string())
    for step, attempt in (
        ("smart module", lambda: next(_filtered(client, topic))),
        ("unknown topic", lambda: client.topic_producer("no-such-topic")),
    ):
        try:
            attempt()
        except Exception as problem:
            show(step=step, text=str(problem))
    show(step="ready")
    sys.stdin.readline()  # by now another client has created the other topic
    _producer_soon(client, other).send(b"k", b"new").wait()
    admin.delete_topic(topic)
    show(step="end")


def _producer_soon(client, topic):
    """A producer for a topic that the client is about to hear of: until then it finds none."""
    for _ in range(100):
        try:
            return client.topic_producer(topic)
        except Exception:
            time.sleep(0.1)
    raise RuntimeError(f"the client has not heard of {topic}")


def _filtered(client, topic):
    config = fluvio.ConsumerConfig()
    config.smartmodule(name="my-filter")
    return client.partition_consumer(topic, 0).stream_with_config(Offset.beginning(), config)


{"produce": produce, "read": read, "features": features}[COMMAND](*WORDS)
os._exit(0)

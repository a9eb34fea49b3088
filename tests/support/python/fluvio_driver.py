"""A Fluvio client of PyPI, of any version, as a program: one command, lines of JSON.

It runs in an environment of its own. It ends without Python's clean-up, which the client's threads
do not survive at times.
"""

import itertools
import json
import os
import sys
import time

import fluvio
from fluvio import Fluvio, FluvioConfig, Offset

ADDRESSES, COMMAND, *WORDS = sys.argv[1:]
NEXT_ADDRESS = itertools.cycle(ADDRESSES.split(","))  # a client itself knows one address


def config_of(address):
    config = FluvioConfig.new(address)
    if "TLS_FILES" in os.environ:
        domain, key, certificate, authority = json.loads(os.environ["TLS_FILES"])
        config.set_tls_file_paths(domain, key, certificate, authority)
    return config


CONFIG = config_of(next(NEXT_ADDRESS))


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


def read_all(topic):
    """Read partition 0 up to its end."""
    client = Fluvio.connect_with_config(CONFIG)
    for record in client.consumer_with_config(_configured(topic)):
        show_record(record)


def topics(topic):
    """Create a topic, list it, delete it."""
    admin = fluvio.FluvioAdmin.connect_with_config(CONFIG)
    new_enough = hasattr(fluvio.TopicSpec, "create")
    admin.create_topic(topic, *([fluvio.TopicSpec.create().build()] if new_enough else []))
    show(step="listed", names=[one.name() for one in admin.list_topics([topic])])
    admin.delete_topic(topic)
    show(step="end")


def create(topic):
    """Create a topic; what is refused is told."""
    try:
        admin = fluvio.FluvioAdmin.connect_with_config(CONFIG)
        admin.create_topic(topic, fluvio.TopicSpec.create().build())
        show(created=topic)
    except Exception as problem:
        show(error=str(problem))


def try_to_produce(topic):
    """Write one record; what is refused is told."""
    try:
        # A producer that its program has let go of does not send what it has gathered.
        producer = Fluvio.connect_with_config(CONFIG).topic_producer(topic)
        show(offset=producer.send(b"k", b"v").wait().offset())
    except Exception as problem:
        show(error=str(problem))


def produce_many(topic, size, count):
    """Write records with keys, and tell how long it took."""
    producer = Fluvio.connect_with_config(CONFIG).topic_producer(topic)
    value = bytes(int(size))
    began_s = time.monotonic()
    for number in range(int(count)):
        producer.send(b"key %06d" % number, value)
    producer.flush()
    show(seconds=time.monotonic() - began_s)


def read_many(topic, size, count):
    """Read records, and tell how long it took."""
    client = Fluvio.connect_with_config(CONFIG)
    stream = client.partition_consumer(topic, 0).stream(Offset.beginning())
    began_s = time.monotonic()
    for _ in range(int(count)):
        assert len(next(stream).value()) == int(size)
    show(seconds=time.monotonic() - began_s)


def read_through(topic, count, *modules):
    """Read so many records through SmartModules, each FILE,PARAMETER=VALUE."""
    config = fluvio.ConsumerConfig()
    for module in modules:
        path, _, parameters = module.partition(",")
        pairs = [pair.split("=") for pair in parameters.split(",") if pair]
        config.smartmodule(path=path, params=dict(pairs))
    client = Fluvio.connect_with_config(CONFIG)
    try:
        stream = client.partition_consumer(topic, 0).stream_with_config(Offset.beginning(), config)
        for _ in range(int(count)):
            show_record(next(stream))
    except Exception as problem:
        show(error=str(problem))


def write_lines(topic):
    """Write each line of the input, as KEY VALUE; show the offset that it got, or the refusal."""
    producer = None
    for line in sys.stdin:
        key, _, value = line.rstrip("\n").partition(" ")
        try:
            if producer is None:
                producer = _producer_soon(Fluvio.connect_with_config(CONFIG), topic)
            sent = producer.send(key.encode(), value.encode())
            producer.flush()
            stored = sent.wait()
            show(value=value, offset=stored.offset(), partition=stored.partition_id())
        except Exception as problem:
            producer = None  # what it has not sent is not sent again
            show(value=value, error=str(problem))


def follow(topic, partition, consumer):
    """Read a partition on and on. A stream that ends goes on by the next address, where it was.

    With a consumer, that is where its kept offset is, and the program keeps one after each record.
    """
    config, after = CONFIG, 0
    while True:
        try:
            client = Fluvio.connect_with_config(config)
            for record in _stream_of(client, topic, int(partition), after, consumer):
                show_record(record)
                after = record.offset() + 1
            problem = "the stream has ended"
        except Exception as failure:
            problem = str(failure)
        show(error=problem)
        config = config_of(next(NEXT_ADDRESS))
        time.sleep(0.1)


def _stream_of(client, topic, partition, start, consumer):
    if not consumer:
        yield from client.partition_consumer(topic, partition).stream(Offset.absolute(start))
        return
    stream = client.consumer_with_config(_configured(topic, consumer, partition=partition))
    for record in stream:
        yield record
        stream.offset_commit()
        stream.offset_flush()


def _configured(topic, consumer=None, strategy="MANUAL", partition=None):
    """Partition None: all, up to their ends."""
    builder = fluvio.ConsumerConfigExtBuilder(topic)
    if partition is None:
        builder.disable_continuous()
    else:
        builder.partition(partition)
    builder.offset_start(Offset.beginning())
    if consumer is not None:
        builder.offset_consumer(consumer)
        builder.offset_strategy(getattr(fluvio.OffsetManagementStrategy, strategy))
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
    stream = client.consumer_with_config(_configured(topic, "by-itself", "AUTO"))
    show(step="read by itself", offsets=[one.offset() for one in stream])
    del stream  # the client commits when a stream ends, and every ten seconds
    show(step="committed by itself", row=_offset_soon(client, "by-itself"))
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
    producer = _producer_soon(client, other)  # kept: without it, what it sends is given up
    producer.send(b"k", b"new").wait()
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


def _offset_soon(client, consumer):
    """The offset of a consumer, once there is one."""
    for _ in range(300):
        for one in client.consumer_offsets():
            if one.consumer_id == consumer:
                return [one.topic, one.partition, one.offset]
        time.sleep(0.1)
    raise RuntimeError(f"{consumer} has no offset")


def _filtered(client, topic):
    config = fluvio.ConsumerConfig()
    config.smartmodule(name="my-filter")
    return client.partition_consumer(topic, 0).stream_with_config(Offset.beginning(), config)


{
    "produce": produce,
    "read": read,
    "features": features,
    "read-all": read_all,
    "topics": topics,
    "create": create,
    "try-to-produce": try_to_produce,
    "produce-many": produce_many,
    "read-many": read_many,
    "read-through": read_through,
    "write-lines": write_lines,
    "follow": follow,
}[COMMAND](*WORDS)
os._exit(0)

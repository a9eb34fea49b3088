"""Bytewax: counts words of a topic into another one."""

import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

brokers = [os.environ["BOOTSTRAP"]]
flow = Dataflow("bytewax-count")
kinput = kop.input("lines", flow, brokers=brokers, topics=["lines"])
words = op.flat_map("words", kinput.oks, lambda message: message.value.decode().split())
keyed = op.key_on("key", words, lambda word: word)


def count(seen: int | None, _word: str) -> tuple[int, int]:
    now = (seen or 0) + 1
    return now, now


counts = op.stateful_map("count", keyed, count)
messages = op.map(
    "message", counts, lambda pair: KafkaSinkMessage(pair[0].encode(), str(pair[1]).encode())
)
kop.output("counts", messages, brokers=brokers, topic="counts")

"""Quix Streams: counts words with state kept in a changelog topic, until standard input ends."""

import sys
import threading
from collections.abc import Iterator

from quixstreams import Application, State

app = Application(
    broker_address=sys.argv[1],
    consumer_group="quix-count",
    state_dir=sys.argv[2],
    auto_offset_reset="earliest",
)
lines = app.topic("lines", value_deserializer="string")
counts = app.topic("counts", value_serializer="string")


def count(word: str, state: State) -> str:
    seen = state.get(word, 0) + 1
    state.set(word, seen)
    return str(seen)


def words(line: str) -> Iterator[str]:
    yield from line.split()


frame = app.dataframe(lines).apply(words, expand=True)
frame = frame.apply(lambda word, state: (word, count(word, state)), stateful=True)
frame = frame.apply(lambda pair: pair[1] + " " + pair[0])
frame.to_topic(counts, key=lambda value: value.partition(" ")[2].encode())

threading.Thread(target=lambda: (sys.stdin.read(), app.stop()), daemon=True).start()
app.run()

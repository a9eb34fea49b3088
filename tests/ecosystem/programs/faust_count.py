"""Faust: counts words in a table whose changelog is a topic."""

import os

import faust

app = faust.App(
    "faust-count",
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    datadir=os.environ["STATE"],
    store="memory://",
    topic_partitions=4,
)
lines = app.topic("lines", value_type=bytes, value_serializer="raw")
counts = app.topic("counts", value_serializer="raw", key_serializer="raw")
table = app.Table("words", default=int, partitions=4)


@app.agent(lines)
async def count(stream: faust.Stream) -> None:
    async for line in stream:
        for word in line.decode().split():
            table[word] += 1
            await counts.send(key=word.encode(), value=str(table[word]).encode())

"""Programs of a trial: started, watched while one waits, ended by closing their standard input."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.support.program import dying_with_us

PATIENCE_S = 240.0


class Running:
    """One program; its output goes to a file."""

    def __init__(
        self, command: list[str], output: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                dying_with_us(command),
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=output.parent,
                env=env,
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        """The end of what it printed."""
        return "\n".join(self._output.read_text("utf-8", "replace").splitlines()[-60:])

    def end(self) -> int:
        """Close its standard input; the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def terminate(self) -> int:
        """SIGTERM, for programs that do not read their standard input."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()


def eventually(program: Running, holds: Callable[[], bool]) -> None:
    """Wait until it holds; a program that ends before, or takes too long, fails the trial."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert program.is_running, f"it ended with {program.process.returncode}:\n{program.said()}"
        assert time.monotonic() < deadline, f"still not so after {PATIENCE_S} s:\n{program.said()}"
        time.sleep(0.2)


def read_topic(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Every record of a topic as it is now: key and value, partition by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    records: list[tuple[bytes | None, bytes | None]] = []
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        for partition in partitions:
            place = TopicPartition(topic, partition, OFFSET_BEGINNING)
            _, end = consumer.get_watermark_offsets(place, timeout=60)
            position = 0
            consumer.assign([place])
            deadline = time.monotonic() + PATIENCE_S
            while position < end:
                assert time.monotonic() < deadline, f"{topic} could not be read to {end}"
                for message in consumer.consume(1000, timeout=0.5):
                    assert message.error() is None, message.error()
                    records.append((message.key(), message.value()))
                (at,) = consumer.position([place])
                position = at.offset
    finally:
        consumer.close()
    return records


def newest_values(bootstrap: str, topic: str) -> dict[bytes | None, bytes | None]:
    """What a reader of a table sees: the newest value of each key."""
    return dict(read_topic(bootstrap, topic))

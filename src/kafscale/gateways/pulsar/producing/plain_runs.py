"""Messages of one producer that came one by one and are stored as one record batch.

Here: what a run holds until it is stored. Only usual messages are in it, and each sequence id
follows the one before: a compiled loop has read them and written them as records
(messages/sends.py).
Next door: the producer (producers.py), the header of a batch (messages/entries_in.py).
"""

from collections import deque
from itertools import islice
from typing import Final

from kafscale.gateways.pulsar.messages import entries_in, sends
from kafscale.records.batch import HEADER_SIZE
from kafscale.records.compression import Codec

MOST_IN_RUN: Final = 1000  # messages
MOST_RUN_BYTES: Final = 256 * 1024
_LARGEST_FRAME: Final = 64 * 1024
_LOOKED_AT: Final = 32  # frames at once: the rest of them may be no part of the run


class PlainRun:
    """The records so far, and the frames that they came in."""

    __slots__ = ("_base_ms", "_latest_ms", "_records", "first_sequence", "frames", "held_bytes")

    def __init__(self, sequence_id: int) -> None:
        """An empty run that begins with this sequence id."""
        self.first_sequence = sequence_id
        self.frames: list[memoryview] = []
        self.held_bytes = 0
        self._records = bytearray(HEADER_SIZE)
        self._base_ms = -1
        self._latest_ms = 0

    @property
    def sequences(self) -> range:
        """The sequence ids of its messages."""
        return range(self.first_sequence, self.first_sequence + len(self.frames))

    def take(
        self, frames: deque[memoryview], producer_id: int, most_bytes: int, extra_bytes: int
    ) -> bool:
        """Take SENDs from the front that go on with the run; False: the first one does not.

        `most_bytes`: of the record batch. `extra_bytes`: what a frame is held for beside its size.
        """
        before = len(self.frames)
        while room := min(_LOOKED_AT, MOST_IN_RUN - len(self.frames)):
            if max(map(len, islice(frames, room)), default=0) > _LARGEST_FRAME:
                room = int(len(frames[0]) <= _LARGEST_FRAME)  # no large one is copied in vain
            some = list(map(bytes, islice(frames, room)))
            count = len(self.frames)
            run = (count, self.first_sequence + count, self._base_ms, self._latest_ms)
            taken, _, _, self._base_ms, self._latest_ms = sends.take_sends(
                some, producer_id, run, most_bytes, self._records
            )
            self.held_bytes += sum(map(len, some[:taken])) + taken * extra_bytes
            self.frames += [frames.popleft() for _ in range(taken)]
            if not taken or taken < room:
                break
        return len(self.frames) > before

    def batch(self, codec: Codec | None) -> bytearray:
        """The record batch. `codec`: the topic's own; None: it is not packed."""
        count, times = len(self.frames), (self._base_ms, self._latest_ms)
        return entries_in.batch_of_plain(self._records, count, times, self.first_sequence, codec)

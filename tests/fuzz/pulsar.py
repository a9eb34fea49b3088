"""The same for Pulsar's frames: a corpus, and the judgement of a spoilt one.

A frame is read, or it is a MalformedMessage. What a SEND brings is stored, or refused with an error
of the protocol; what was stored can be delivered. The compiled loop takes only what the slower
functions take, and writes the same.
"""

from crc32c import crc32c

from kafscale.gateways.pulsar.messages import sends
from kafscale.gateways.pulsar.messages.entries_in import batch_of_all, open_entry
from kafscale.gateways.pulsar.messages.entries_out import (
    EntryFraming,
    LastOpened,
    StoredBatch,
    entry_of_one,
    entry_of_run,
)
from kafscale.model.errors import BadBatch, InvalidRequest
from kafscale.records.batch import HEADER_SIZE, read_header
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.frame import WrongChecksum, read_entry, read_frame, write_command
from kafscale.wire.pulsar.messages.commands import Send
from tests.unit.wire.pulsar.golden import GOLDEN

_CHECKSUM = b"\x0e\x01"
_CHECKSUM_BYTES = 6
_LIMIT = 1 << 20


def corpus() -> list[bytes]:
    """Frames without their length; checksums are left out, as they would hide what is behind."""
    frames = [bytes.fromhex(text)[4:] for text in GOLDEN.values()]
    bare = []
    for frame in frames:
        rest = read_frame(memoryview(frame)).rest
        if len(rest):
            bare.append(frame[: len(frame) - len(rest)] + bytes(rest[_CHECKSUM_BYTES:]))
    return frames + 5 * bare


def judge(data: bytes) -> bool:
    """Whether the frame could be read. Raises when the decoder broke its promise."""
    try:
        command, rest = read_frame(memoryview(data))
    except MalformedMessage:
        return False
    again = read_frame(memoryview(write_command(command))[4:]).command
    # Compared as text: NaN differs from itself.
    assert repr(again) == repr(command), "written and read again it is another command"
    if isinstance(command, Send) and len(rest):
        _judge_send(command, data[: len(data) - len(rest)], bytes(rest))
    return not len(rest) or _judge_entry(rest)


def _judge_send(command: Send, front: bytes, rest: bytes) -> None:
    """The loop sees the frame with the right checksum: a wrong one hides what is behind."""
    behind = rest[_CHECKSUM_BYTES:] if rest.startswith(_CHECKSUM) else rest
    frame = front + _CHECKSUM + crc32c(behind).to_bytes(4, "big") + behind
    sender, sequence_id = sends.sender_of(frame)
    if sender < 0:
        return
    out = bytearray(HEADER_SIZE)
    taken, *_ = sends.take_sends([frame], sender, (0, sequence_id, -1, 0), _LIMIT, out)
    assert bool(taken) == (len(out) > HEADER_SIZE)
    if taken:
        assert (sender, sequence_id) == (command.producer_id, command.sequence_id)
        entry = open_entry(*read_entry(memoryview(frame)[len(front) :]), _LIMIT)
        assert batch_of_all([entry], None)[HEADER_SIZE:] == out[HEADER_SIZE:]


def _judge_entry(rest: memoryview) -> bool:
    try:
        stored = batch_of_all([open_entry(*read_entry(rest), _LIMIT)], None)
    except (MalformedMessage, WrongChecksum, BadBatch, InvalidRequest):
        return False
    for run in EntryFraming().frame(memoryview(stored), read_header(stored), by_key=True):
        assert isinstance(run.source, StoredBatch)
        records = LastOpened().records(run.source, run.first, run.next)
        if run.is_split:
            for record in records:
                entry_of_one(run.source, record, 0)
        else:
            entry_of_run(run.source, records, 0)
    return True

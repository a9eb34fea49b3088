"""Messages that come one by one: the compiled loop writes what the slower functions write."""

from collections import deque
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.gateways.pulsar.messages import sends
from kafscale.gateways.pulsar.messages.entries_in import batch_of_all, open_entry
from kafscale.gateways.pulsar.messages.splice import UNUSUAL
from kafscale.gateways.pulsar.producing.plain_runs import MOST_IN_RUN, PlainRun
from kafscale.records.batch import read_header
from kafscale.records.compression import Codec
from kafscale.wire.pulsar.frame import (
    read_entry,
    read_frame,
    sign_entry,
    write_command,
    write_receipt,
)
from kafscale.wire.pulsar.messages.commands import Send
from kafscale.wire.pulsar.messages.metadata import KeyValue, MessageMetadata

LIMIT = 1 << 20
NOW_MS = 1_790_000_000_000


def _as_python() -> ModuleType:
    """The loop as it is without a C compiler."""
    path = Path(read_frame.__code__.co_filename).parents[2] / "gateways/pulsar/messages/sends.py"
    loader = SourceFileLoader("sends_as_python", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


LOOPS = (sends, _as_python())
texts = st.text(max_size=5)
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=200)


@st.composite
def usual(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """The fields of a usual message beside its sequence id, and its payload."""
    fields: dict[str, Any] = {"producer_name": draw(ascii_texts)}
    fields["publish_time"] = NOW_MS + draw(st.integers(-(1 << 21), 1 << 21))
    pairs = draw(st.lists(st.tuples(ascii_texts, ascii_texts), max_size=3))
    fields["properties"] = [KeyValue(key=key, value=value) for key, value in pairs]
    kind = draw(st.sampled_from(["none", "partition", "ordering"]))
    if kind == "partition":
        fields["partition_key"] = draw(ascii_texts)
    elif kind == "ordering":
        fields["ordering_key"] = draw(st.binary(max_size=100))
    if draw(st.booleans()):
        fields |= {"null_value": draw(st.booleans()), "uncompressed_size": 3, "compression": 0}
    return fields, draw(st.binary(max_size=300))


def frame_of(
    number: int, message: tuple[dict[str, Any], bytes], producer: int = 1, **more: Any
) -> bytes:
    fields, payload = message
    head, payload = sign_entry(MessageMetadata(sequence_id=number, **fields).encode(), payload)
    command = Send(producer_id=producer, sequence_id=number, **more)
    return (write_command(command, behind=len(head) + len(payload)) + head + payload)[4:]


def slowly(frames: list[bytes]) -> bytes:
    rests = [read_entry(read_frame(memoryview(frame)).rest) for frame in frames]
    return bytes(batch_of_all([open_entry(*rest, LIMIT) for rest in rests], None))


@given(st.lists(usual(), min_size=1, max_size=20), st.integers(0, 1 << 20), st.integers(0, 400))
def test_a_run_is_the_batch_that_the_slower_functions_write(
    messages: list[tuple[dict[str, Any], bytes]], first: int, producer: int
) -> None:
    frames = [
        frame_of(first + at, one, producer, num_messages=1) for at, one in enumerate(messages)
    ]
    run, queue = PlainRun(first), deque(map(memoryview, frames))
    assert run.take(queue, producer, LIMIT, 10)
    assert not queue
    assert list(run.sequences) == list(range(first, first + len(frames)))
    assert run.held_bytes == sum(map(len, frames)) + 10 * len(frames)
    assert bytes(run.batch(None)) == slowly(frames)


@given(usual())
def test_both_forms_of_the_loop_write_the_same(message: tuple[dict[str, Any], bytes]) -> None:
    frame, made = frame_of(7, message), []
    for loops in LOOPS:
        out = bytearray(61)
        told = loops.take_sends([frame], 1, (3, 7, NOW_MS, 0), LIMIT, out)
        assert told[0] == 1
        made.append((told, out))
    assert made[0] == made[1]


USUAL: dict[str, Any] = {"producer_name": "p", "publish_time": NOW_MS}
UNUSUAL_FRAMES = {
    "another producer": frame_of(1, (USUAL, b"v"), 2),
    "another sequence id": frame_of(2, (USUAL, b"v")),
    "a sequence id that the metadata contradicts": frame_of(1, (USUAL, b"v")).replace(
        b"\x08\x01\x10\x01", b"\x08\x01\x10\x05"
    ),
    "event time": frame_of(1, (USUAL | {"event_time": 5}, b"v")),
    "batch of one": frame_of(1, (USUAL | {"num_messages_in_batch": 1}, b"v")),
    "packed": frame_of(1, (USUAL | {"compression": 1, "uncompressed_size": 1}, b"v")),
    "key beyond ASCII": frame_of(1, (USUAL | {"partition_key": "ü"}, b"v")),
    "both keys": frame_of(1, (USUAL | {"partition_key": "a", "ordering_key": b"b"}, b"v")),
    "base64": frame_of(1, (USUAL | {"partition_key_b64_encoded": True}, b"v")),
    "property beyond ASCII": frame_of(
        1, (USUAL | {"properties": [KeyValue(key="ü", value="")]}, b"v")
    ),
    "name beyond ASCII": frame_of(1, (USUAL | {"producer_name": "ü"}, b"v")),
    "schema": frame_of(1, (USUAL | {"schema_version": b"\0"}, b"v")),
    "delay": frame_of(1, (USUAL | {"deliver_at_time": NOW_MS}, b"v")),
    "chunk": frame_of(1, (USUAL, b"v"), is_chunk=True),
    "transaction": frame_of(1, (USUAL, b"v"), txnid_least_bits=1, txnid_most_bits=1),
    "highest sequence id": frame_of(1, (USUAL, b"v"), highest_sequence_id=3),
    "two messages": frame_of(1, (USUAL, b"v"), num_messages=2),
    "time beyond all times": frame_of(1, (USUAL | {"publish_time": 1 << 62}, b"v")),
    "wrong checksum": frame_of(1, (USUAL, b"v"))[:-1] + b"w",
    "large": frame_of(1, (USUAL, bytes(2000))),
    "not a message": write_command(Send(producer_id=1, sequence_id=1))[4:],
    "nothing": b"",
}


@pytest.mark.parametrize("loops", LOOPS, ids=["compiled", "python"])
@pytest.mark.parametrize("name", UNUSUAL_FRAMES)
def test_what_is_not_usual_is_left_alone(loops: ModuleType, name: str) -> None:
    first, out = frame_of(0, (USUAL, b"v")), bytearray(61)
    frames = [first, UNUSUAL_FRAMES[name], frame_of(1, (USUAL, b"v"))]
    assert loops.take_sends(frames, 1, (0, 0, -1, 0), 1000, out) == (1, 1, 1, NOW_MS, NOW_MS)
    alone = bytearray(61)
    loops.take_sends([first], 1, (0, 0, -1, 0), 1000, alone)
    assert out == alone


@given(st.integers(0, 5), st.binary(max_size=3), st.integers(0, 60), st.booleans())
def test_of_broken_bytes_only_what_the_slower_functions_take_is_taken(
    cut: int, noise: bytes, at: int, is_signed: bool
) -> None:
    fields = USUAL | {"partition_key": "key", "properties": [KeyValue(key="a", value="b")]}
    metadata = MessageMetadata(sequence_id=0, **fields).encode()
    broken = metadata[:at] + noise + metadata[at + cut :] if is_signed else metadata
    head, payload = sign_entry(broken, b"value")
    command = write_command(Send(producer_id=1, sequence_id=0), behind=len(head) + len(payload))
    frame = (command + head + payload)[4:]
    if not is_signed:
        frame = frame[:at] + noise + frame[at + cut :]
    for loops in LOOPS:
        out = bytearray(61)
        (taken, *_) = loops.take_sends([frame], 1, (0, 0, -1, 0), LIMIT, out)
        if taken:
            assert out[61:] == slowly([frame])[61:]
        else:
            assert len(out) == 61


@pytest.mark.parametrize("loops", LOOPS, ids=["compiled", "python"])
@pytest.mark.parametrize("first", [0, 120, 16_380, (1 << 35) - 3])
def test_receipts_are_those_of_single_messages(loops: ModuleType, first: int) -> None:
    wanted = b"".join(write_receipt(300, first + at, 2, first + 9 + at) for at in range(10))
    assert loops.receipts(300, first, 10, 2, first + 9) == wanted


def test_a_run_ends_when_it_is_full() -> None:
    frames = deque(memoryview(frame_of(at, (USUAL, b"v"))) for at in range(MOST_IN_RUN + 5))
    run = PlainRun(0)
    assert run.take(frames, 1, LIMIT, 0)
    assert len(run.frames) == MOST_IN_RUN
    assert len(frames) == 5
    assert not run.take(frames, 1, LIMIT, 0)
    header = read_header(run.batch(Codec.ZSTD))
    assert (header.codec, header.record_count) == (Codec.ZSTD, MOST_IN_RUN)


def test_messages_before_a_large_one_are_taken() -> None:
    small = [frame_of(at, (USUAL, b"v")) for at in range(3)]
    large = frame_of(3, (USUAL, bytes(100_000)))
    frames, run = deque(map(memoryview, (*small, large, frame_of(4, (USUAL, b"v"))))), PlainRun(0)
    assert run.take(frames, 1, LIMIT, 0)
    assert (len(run.frames), len(frames)) == (3, 2)
    assert not run.take(frames, 1, LIMIT, 0)
    assert bytes(run.batch(None)) == slowly(small)


def test_the_sender_of_anything_else_is_unknown() -> None:
    batch = frame_of(1, (USUAL | {"num_messages_in_batch": 300}, b"v"), num_messages=300)
    for frame in (b"", b"\0\0\0\5\x08\x07\x3a\x02\x08", b"\0" * 20, batch[:40]):
        assert sends.sender_of(frame)[0] == UNUSUAL
    assert sends.sender_of(frame_of(70_000, (USUAL, b""), 1 << 40)) == (1 << 40, 70_000)

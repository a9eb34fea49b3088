"""Spoiling frames, and judging what becomes of them.

Here: a corpus (captured frames, made-up messages), random damage, and the one property: a frame
is read, or it is a MalformedMessage; what was read can be written and reads the same again. The
same for the records of a batch, on which all walks must agree.
Never here: a clock; who calls decides how long.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from kafscale.model.errors import InvalidRecord
from kafscale.records.batch import HEADER_SIZE
from kafscale.records.record import Record, build_batch
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka import codec, frame
from kafscale.wire.kafka.catalog import APIS, BY_KEY
from tests.fuzz.samples import Maker, plain
from tests.golden.annotate import from_text
from tests.support.walks import FAST_WALKS

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "kafka"

# Lengths, counts and signs that have broken decoders before.
_TRAPS: Final = [
    bytes.fromhex(text)
    for text in [
        "00",
        "01",
        "7f",
        "80",
        "ff",
        "0000",
        "7fff",
        "8000",
        "ffff",
        "fffe",
        "7fffffff",
        "80000000",
        "ffffffff",
        "fffffffe",
        "ffffffff0f",
        "ffffffff07",
        "ffffff7f",
        "8080808000",
        "808080808000",
        "00000001",
        "c0af",
        "eda080",
        "f4908080",
    ]
]


def corpus() -> list[bytes]:
    """Request frames without their length."""
    captured = [from_text(path.read_text())[4:] for path in sorted(GOLDEN.glob("*.hex"))]
    made = []
    for api in APIS:
        for version in api.versions:
            value = Maker(("corpus", api.key, version)).message(api.request, version)
            made.append(b"".join(frame.request_frame(1, value, version, "fuzz"))[4:])
    return captured + made


def spoil(data: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    """One to four pieces of damage."""
    spoilt = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(spoilt) + 1)
        match dice.randrange(7):
            case 0:
                del spoilt[at:]
            case 1:
                trap = dice.choice(_TRAPS)
                spoilt[at : at + len(trap)] = trap
            case 2:
                spoilt[at:at] = dice.choice(_TRAPS)
            case 3:
                del spoilt[at : at + dice.randint(1, 8)]
            case 4:
                other = dice.choice(others)
                start = dice.randrange(len(other))
                spoilt[at:] = other[start:]
            case 5 if spoilt:
                spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
            case _:
                spoilt[2:4] = dice.randrange(16).to_bytes(2, "big")
    return bytes(spoilt)


def judge(data: bytes) -> bool:
    """Whether the frame could be read. Raises when the decoder broke its promise."""
    view = memoryview(data)
    try:
        asked = frame.read_request(view)
        api = BY_KEY.get(asked.api_key)
        if api is None or asked.version not in api.versions:
            return False
        read = frame.read_body(asked, view)
    except MalformedMessage:
        return False
    written = b"".join(codec.encode(read, asked.version))
    again, end = codec.decode(api.request, memoryview(written), asked.version)
    # Compared as text: NaN differs from itself.
    assert repr(plain(again)) == repr(plain(read)), "written and read again it is another message"
    assert end == len(written)
    return True


def judge_records(payload: bytes, count: int) -> bool:
    """Whether these bytes are `count` records. Raises when two walks differ, the compiled included.

    The walk of strides.py ends in the rule, so its verdict is the rule's.
    """
    verdicts = {}
    for name, check in FAST_WALKS.items():
        try:
            check(payload, 0, count, False)
            verdicts[name] = True
        except InvalidRecord:
            verdicts[name] = False
    assert len(set(verdicts.values())) == 1, verdicts
    return verdicts["strides"]


def record_corpus(dice: random.Random) -> list[bytes]:
    """The records of some batches, equal and mixed in size, without the batches' headers."""
    made = []
    for count in (1, 2, 5, 70, 200):
        for largest in (0, 3, 40, 300):
            records = [
                Record(
                    number,
                    dice.randrange(10_000),
                    dice.choice([None, b"key"]),
                    bytes(dice.randint(largest // 2, largest)),
                    dice.choice([(), (("h", b"x"), ("i", None))]),
                )
                for number in range(count)
            ]
            made.append(build_batch(records, base_offset=0)[HEADER_SIZE:])
    return made

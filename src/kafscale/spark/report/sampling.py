"""A look into a topic without reading all of it: codecs, sizes of batches, frequent keys.

Here: which bytes to look at, what one look finds, and adding looks up. Frequent keys are counted
exactly within a look and merged like heavy hitters: a look reports its most frequent keys and how
often the first of the others came, so that no sum is more than `slack` too small. How many keys
there are is estimated by HyperLogLog. Next door: the job (jobs/stats.py). Never here: Spark.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels import scan
from kafscale.spark.kernels.arrays import ByteArray
from kafscale.spark.kernels.decoder import ObjectPiece, PartitionWindow, RecordDecoder
from kafscale.spark.views import PartitionView, StoredRange

KEPT: Final = 1000  # frequent keys a look reports
LOOK_BYTES: Final = 1 << 20
_PRECISION: Final = 12
_REGISTERS: Final = 1 << _PRECISION


class SampledRange(NamedTuple):
    """One range of whole or cut batches of a partition."""

    bucket: Bucket
    topic: str
    partition: int
    key: str
    start: int
    length: int


@dataclass
class RecordSample:
    """What looks have found; they can be added."""

    records: int = 0
    stored_bytes: int = 0
    raw_bytes: int = 0
    batches: int = 0
    codecs: Counter[str] = field(default_factory=Counter)  # stored bytes by codec
    keys: Counter[bytes] = field(default_factory=Counter)
    slack: int = 0  # at most so many records of any one key may be missing in `keys`
    without_key: int = 0
    registers: bytes = bytes(_REGISTERS)

    def __add__(self, other: "RecordSample") -> "RecordSample":
        """Both together, the less frequent keys forgotten again."""
        keys, slack = _trimmed(self.keys + other.keys)
        return RecordSample(
            self.records + other.records,
            self.stored_bytes + other.stored_bytes,
            self.raw_bytes + other.raw_bytes,
            self.batches + other.batches,
            self.codecs + other.codecs,
            keys,
            self.slack + other.slack + slack,
            self.without_key + other.without_key,
            np.maximum(
                np.frombuffer(self.registers, np.uint8), np.frombuffer(other.registers, np.uint8)
            ).tobytes(),
        )

    @property
    def ratio(self) -> float | None:
        """Raw bytes for each stored one."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None

    @property
    def distinct_keys(self) -> int:
        """About how many keys were seen."""
        return _estimate(np.frombuffer(self.registers, np.uint8))

    def top(self, count: int = 10) -> list[tuple[bytes, float]]:
        """The most frequent keys and their share of the records that have one."""
        keyed = self.records - self.without_key
        return [(key, seen / keyed) for key, seen in self.keys.most_common(count)]


def sampled_ranges(bucket: Bucket, view: PartitionView, budget_bytes: int) -> list[SampledRange]:
    """Ranges spread evenly over a partition's objects; all of it where the budget allows."""
    total = sum(stored.length for stored in view.stored_ranges)
    if total <= budget_bytes:
        chosen = [(stored, stored.length) for stored in view.stored_ranges]
    else:
        count = max(1, budget_bytes // LOOK_BYTES)
        step = max(1, len(view.stored_ranges) // count)
        picked: Sequence[StoredRange] = view.stored_ranges[::step]
        share = max(LOOK_BYTES, budget_bytes // len(picked))
        chosen = [(stored, min(stored.length, share)) for stored in picked]
    return [
        SampledRange(bucket, view.topic, view.partition, stored.key, stored.start, length)
        for stored, length in chosen
    ]


def look_at_all(group: Iterable[SampledRange]) -> dict[tuple[str, int], RecordSample]:
    """What these looks find, by topic and partition; runs on a worker."""
    samples: dict[tuple[str, int], RecordSample] = {}
    decoder = RecordDecoder(("key",), verify_crc=False)
    for sampled in group:
        place = (sampled.topic, sampled.partition)
        samples[place] = samples.get(place, RecordSample()) + _look(sampled, decoder)
    return samples


def _look(sampled: SampledRange, decoder: RecordDecoder) -> RecordSample:
    data = sampled.bucket.read(sampled.key, sampled.start, sampled.length)
    walked = scan.walk(data, 0, len(data))
    if not walked.positions:
        return RecordSample()
    headers = scan.read_headers(np.frombuffer(data, np.uint8), walked.positions)
    sizes = headers.sizes
    codecs: Counter[str] = Counter()
    for number in np.unique(headers.codecs).tolist():
        name = Codec(number).name.lower() if number <= Codec.ZSTD else f"codec {number}"
        codecs[name] = int(sizes[headers.codecs == number].sum())
    lane = PartitionWindow(sampled.topic, sampled.partition)
    whole = [ObjectPiece(sampled.key, sampled.start, [data[: walked.stop]])]
    columns = [decoded.column(0) for decoded in decoder.decode(lane, whole)]
    keys = pa.chunked_array(columns, pa.binary())
    counts, slack = _frequent(keys)
    return RecordSample(
        len(keys),
        int(sizes.sum()),
        _raw_bytes(data, headers),
        len(walked.positions),
        codecs,
        counts,
        slack,
        keys.null_count,
        _registers(keys).tobytes(),
    )


def _raw_bytes(data: memoryview, headers: scan.BatchHeaders) -> int:
    """Bytes as they were before compression, by the batches' own sizes."""
    from kafscale.records.compression import decompress

    total = 0
    rows = zip(
        headers.positions.tolist(), headers.sizes.tolist(), headers.codecs.tolist(), strict=True
    )
    for position, size, codec in rows:
        total += size
        if codec and codec <= Codec.ZSTD:
            packed = data[position + batch.HEADER_SIZE : position + size]
            total += len(decompress(Codec(codec), packed, 1 << 30)) - len(packed)
    return total


def _frequent(keys: pa.ChunkedArray) -> tuple[Counter[bytes], int]:
    counted = pc.value_counts(keys.drop_null())
    names, numbers = counted.field("values"), counted.field("counts").to_numpy()
    best = np.argsort(-numbers, kind="stable")[: KEPT + 1]
    kept = {names[int(at)].as_py(): int(numbers[at]) for at in best[:KEPT]}
    return Counter(kept), int(numbers[best[KEPT]]) if len(best) > KEPT else 0


def _trimmed(keys: Counter[bytes]) -> tuple[Counter[bytes], int]:
    if len(keys) <= 2 * KEPT:
        return keys, 0
    ranked = keys.most_common()
    return Counter(dict(ranked[:KEPT])), ranked[KEPT][1]


def _registers(keys: pa.ChunkedArray) -> ByteArray:
    """HyperLogLog: of each hash, the first bits choose a register, the rest count zeros."""
    registers = np.zeros(_REGISTERS, np.uint8)
    hashes = [
        int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        for key in pc.unique(keys.drop_null()).to_pylist()
    ]
    if not hashes:
        return registers
    numbers = np.array(hashes, np.uint64)
    places = (numbers >> np.uint64(64 - _PRECISION)).astype(np.int64)
    rest = (numbers << np.uint64(_PRECISION)) | np.uint64(1 << (_PRECISION - 1))
    ranks = (64 - np.floor(np.log2(rest.astype(np.float64)))).astype(np.uint8)
    np.maximum.at(registers, places, ranks)
    return registers


def _estimate(registers: ByteArray) -> int:
    weight = 0.7213 / (1 + 1.079 / _REGISTERS)
    guess = weight * _REGISTERS**2 / np.sum(np.exp2(-registers.astype(np.float64)))
    empty = int(np.count_nonzero(registers == 0))
    if guess <= 2.5 * _REGISTERS and empty:
        guess = _REGISTERS * np.log(_REGISTERS / empty)
    return round(float(guess))

"""What old clients send and read, for the tests of conversion."""

from kafscale.records.batch import read_header
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.messages.fetch import PartitionData
from tests.support.old_wire import Old, plain, shallow
from tests.unit.gateways.kafka.caller import NOW_MS, records_of
from tests.unit.records import legacy_oracles

ROWS = [Old(n, NOW_MS + n, b"k%d" % n, b"value") for n in range(3)]


def olds(row: PartitionData) -> list[Old]:
    """What a client of old reads."""
    assert row.error_code == 0
    assert isinstance(row.records, memoryview)
    return legacy_oracles.parse("kafka-python", bytes(row.records))


def magics(row: PartitionData) -> set[int]:
    assert isinstance(row.records, memoryview)
    return {magic for _, magic, _ in shallow(row.records)}


def stored(row: PartitionData) -> list[Old]:
    return [Old(*one[:4]) for one in records_of(row)]


def timed(rows: list[Old], magic: int) -> list[Old]:
    return rows if magic else [row._replace(timestamp_ms=-1) for row in rows]


def large(magic: int, count: int = 500) -> bytes:
    return plain([Old(n, NOW_MS, None, b"%05d" % n + bytes(95)) for n in range(count)], magic)


async def put(broker: InProcessBroker, raw: bytes) -> None:
    """Append a batch no producer could send: what compaction or a transaction leaves behind."""
    topic = broker.engine.topics.get("t")
    log, lane = await broker.engine._parts.logs.open(topic, 0)
    data = memoryview(bytearray(raw))
    done = log.append(lane.number, read_header(data), data, acknowledged=False).committed
    assert done is not None
    assert await done is None

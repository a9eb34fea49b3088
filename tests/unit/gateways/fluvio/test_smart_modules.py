"""SmartModules on streams: what they may do, and where they are stopped.

The modules here are written by hand, in WebAssembly's text form. What the Rust toolchain makes of
Fluvio's own crate is tried in tests/e2e/test_smart_modules.py.
"""

import gzip
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from kafscale.gateways.fluvio.records.outgoing import OffsetRun
from kafscale.gateways.fluvio.smart_modules import chains
from kafscale.gateways.fluvio.smart_modules.chains import LARGEST_MODULE_BYTES
from kafscale.settings.sections import FluvioSection
from kafscale.settings.values import PositiveSize
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError
from kafscale.wire.fluvio.messages.smart_modules import (
    AdHoc,
    Aggregate,
    Filter,
    Generic,
    Join,
    Lookback,
    Map,
    SmartModuleInvocation,
)
from kafscale.wire.fluvio.messages.stream_fetch import StreamFetchRequest
from tests.support.fluvio_records import FluvioRecord, write_batch, write_record
from tests.support.fluvio_wire import FluvioConnection
from tests.unit.gateways.fluvio.test_data import StreamOf, produce, produce_request, values

wasmtime = pytest.importorskip("wasmtime")
pytestmark = pytest.mark.real_time
MEMORY_BYTES = 4 << 20

# Every module takes its input at a fixed place. A function gets where it is and how long.
MODULE = """
(module
  (import "env" "copy_records" (func $give (param i32 i32)))
  (memory (export "memory") 4)
  (data (i32.const 16) "\\00\\00\\00\\00\\00\\00\\00\\00\\00")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func $raw_size (param $at i32) (result i32)
    (i32.or
      (i32.shl (i32.load8_u (i32.add (local.get $at) (i32.const 10))) (i32.const 8))
      (i32.load8_u (i32.add (local.get $at) (i32.const 11)))))
  {functions}
)
"""
# The records begin behind offset and length, and a zero follows them: no error.
KEEP_ALL = """
(call $give (i32.add (local.get 0) (i32.const 12))
            (i32.add (call $raw_size (local.get 0)) (i32.const 1)))
(i32.const 0)
"""
KEEP_NONE = "(call $give (i32.const 16) (i32.const 5)) (i32.const 0)"


def packed(text: str) -> bytes:
    return gzip.compress(bytes(wasmtime.wat2wasm(text)))


def module(body: str, name: str = "filter", more: str = "") -> AdHoc:
    function = f'(func (export "{name}") (param i32 i32 i32) (result i32) {body})'
    return AdHoc(packed(MODULE.replace("{functions}", function + more)))


@pytest.fixture
async def broker() -> AsyncIterator[InProcessBroker]:
    section = FluvioSection(
        sc_port=0,
        spu_port=0,
        smart_module_memory=PositiveSize(MEMORY_BYTES),
        most_smart_modules=2,
    )
    async with InProcessBroker(config=replace(FOR_TESTS, fluvio=section)) as started:
        await started.engine.topics.create("t", 1, {})
        yield started


@pytest.fixture
async def filled(data: FluvioConnection) -> FluvioConnection:
    for text in ("a", "b", "c"):
        await produce(data, produce_request(write_batch(values(text))))
    return data


def through(*invocations: SmartModuleInvocation) -> StreamFetchRequest:
    return StreamFetchRequest("t", 0, 0, 1 << 20, smart_modules=list(invocations))


async def refusal(data: FluvioConnection, wasm: AdHoc, **fields: object) -> FluvioError:
    """What a stream with this module is told; it ends by that."""
    invocation = SmartModuleInvocation(wasm, **{"kind": Generic(), **fields})  # type: ignore[arg-type]
    stream = StreamOf(data, through(invocation))
    answer = await stream.answer()
    assert bytes(answer.records) == b""
    return answer.error


async def test_records_go_through_every_module_of_a_chain(filled: FluvioConnection) -> None:
    keep = SmartModuleInvocation(module(KEEP_ALL), Filter())
    again = SmartModuleInvocation(module(KEEP_ALL, "map"), Generic())
    rows, following, _ = await StreamOf(filled, through(keep, again)).read()
    assert rows == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert following == 3


async def test_a_stream_whose_records_are_all_left_out_goes_on(filled: FluvioConnection) -> None:
    stream = StreamOf(filled, through(SmartModuleInvocation(module(KEEP_NONE), Generic())))
    rows, following, stream_id = await stream.read()
    assert (rows, following) == ([], 3)
    await produce(filled, produce_request(write_batch(values("d"))))
    await stream.give_credit(3, stream_id)
    assert (await stream.read())[:2] == ([], 4)


async def test_an_aggregate_is_given_what_it_gave_before(filled: FluvioConnection) -> None:
    # Gives no records, no error, and one byte: the first of what it was given, and one more. It is
    # found behind the records, 3 bytes of parameters, 4 of a join, a time and a length.
    body = """
      (i32.store8 (i32.const 25)
        (i32.add (i32.const 1)
          (i32.load8_u (i32.add (i32.add (local.get 0) (i32.const 31))
                                (call $raw_size (local.get 0))))))
      (i32.store8 (i32.const 24) (i32.const 1))
      (call $give (i32.const 16) (i32.const 10))
      (if (i32.gt_u (i32.load8_u (i32.const 25)) (i32.const 67)) (then unreachable))
      (i32.const 0)
    """
    # It fails when it is to give "D": it began with "@", and got three batches before.
    kind = Aggregate(b"@")
    stream = StreamOf(filled, through(SmartModuleInvocation(module(body, "aggregate"), kind)))
    _, following, stream_id = await stream.read()
    assert following == 3
    await produce(filled, produce_request(write_batch(values("d"))))
    await stream.give_credit(3, stream_id)
    answer = await stream.answer()
    assert "aggregate has failed" in str(answer.error.details[0])


async def test_a_module_without_end_is_ended(filled: FluvioConnection) -> None:
    error = await refusal(filled, module("(loop $again (br $again)) (i32.const 0)"))
    assert "takes too long" in str(error.details[0])
    rows, _, _ = await StreamOf(filled, StreamFetchRequest("t", 0, 0, 1 << 20)).read()
    assert len(rows) == 3  # nothing else has suffered


async def test_a_module_has_so_much_memory_and_no_more(filled: FluvioConnection) -> None:
    body = """
      (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
      unreachable
    """
    error = await refusal(filled, module(body))
    assert error.code == FluvioCode.SMART_MODULE_MEMORY_LIMIT
    assert error.details[1] == MEMORY_BYTES


@pytest.mark.parametrize(
    ("wasm", "code"),
    [
        (AdHoc(b"no gzip"), FluvioCode.SMART_MODULE_INVALID),
        (AdHoc(gzip.compress(b"no module")), FluvioCode.SMART_MODULE_INVALID),
        (AdHoc(gzip.compress(bytes(LARGEST_MODULE_BYTES + 1))), FluvioCode.SMART_MODULE_INVALID),
        (module("unreachable"), FluvioCode.OTHER),
        (module("(i32.const -11)"), FluvioCode.OTHER),
        (module("(call $give (i32.const -8) (i32.const 99)) (i32.const 0)"), FluvioCode.OTHER),
        (module(KEEP_ALL.replace("i32.const 1)", "i32.const -2)")), FluvioCode.OTHER),  # cut off
        (module(KEEP_ALL, "join"), FluvioCode.SMART_MODULE_INVALID_EXPORTS),
    ],
)
async def test_a_module_that_fails_costs_its_stream(
    filled: FluvioConnection, wasm: AdHoc, code: FluvioCode
) -> None:
    assert (await refusal(filled, wasm)).code == code


async def test_a_module_sees_nothing_of_the_machine(filled: FluvioConnection) -> None:
    needs = """
      (module (import "env" "open_file" (func)) (memory (export "memory") 1)
        (func (export "filter") (param i32 i32 i32) (result i32) (i32.const 0)))
    """
    error = await refusal(filled, AdHoc(packed(needs)))
    assert "open_file" in str(error.details[0])


async def test_what_is_not_supported_is_refused(filled: FluvioConnection) -> None:
    wasm = module(KEEP_ALL)
    assert "join" in str((await refusal(filled, wasm, kind=Join("other"))).details[0])
    assert "look back" in str((await refusal(filled, wasm, lookback=Lookback(3))).details[0])
    error = await refusal(filled, wasm, kind=Map())
    assert error.code == FluvioCode.SMART_MODULE_INVALID_EXPORTS


async def test_a_broker_runs_so_many_modules_at_once(
    filled: FluvioConnection, broker: InProcessBroker
) -> None:
    keep = SmartModuleInvocation(module(KEEP_ALL), Generic())
    async with await FluvioConnection.open(broker.endpoints["FLUVIO_SPU"]) as other:
        await StreamOf(other, through(keep, keep)).read()
        error = await refusal(filled, module(KEEP_ALL))
        assert "at once" in str(error.details[0])
    for _ in range(100):  # the broker hears of the client's end a moment later
        stream = StreamOf(filled, through(keep))
        if (await stream.answer()).error.code == FluvioCode.NONE:
            return
    raise AssertionError("what the client had is not given back")


def test_runs_are_cut_where_a_module_has_left_out_records() -> None:
    run = OffsetRun(100, 5, 1000, 2000, b"")

    def written(*deltas: int) -> bytes:
        rows = b"".join(write_record(FluvioRecord(b"k", b"v%d" % one), one) for one in deltas)
        return len(deltas).to_bytes(4, "big") + rows

    cut = chains._cut(run, written(0, 1, 4), [0, 1, 4])
    assert [(one.base_offset, one.record_count) for one in cut] == [(100, 2), (104, 1)]
    assert b"".join(bytes(one.records) for one in cut) == written(0, 1, 4)[4:]
    several_of_one = chains._cut(run, written(0, 0, 0), [0, 0, 0])
    assert [(one.base_offset, one.record_count) for one in several_of_one] == [(100, 3)]
    assert chains._cut(run, written(), []) == []

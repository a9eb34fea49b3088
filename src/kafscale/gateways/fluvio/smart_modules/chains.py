"""The SmartModules of a stream: records go through one after the other.

Here: which modules a request names, and what becomes of runs of records. What filters and maps give
keeps its offsets, so that runs are cut where records were left out. An array map makes several
records of one: these are counted from the offset of the first.
Next door: one module (module_instances.py), the stream (data/streams.py).
"""

import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from kafscale.gateways.fluvio.errors import RefusedModule
from kafscale.gateways.fluvio.records import splice
from kafscale.gateways.fluvio.records.outgoing import OffsetRun
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError
from kafscale.wire.fluvio.messages import smart_modules as messages
from kafscale.wire.fluvio.messages.smart_modules import SmartModuleInvocation

if TYPE_CHECKING:
    from kafscale.gateways.fluvio.smart_modules.module_instances import (
        ModuleInstance,
        ModuleRuntime,
    )

LARGEST_MODULE_BYTES: Final = 8 << 20
_MOST_IN_CHAIN: Final = 8
_COUNT: Final = struct.Struct(">i")
_GZIP: Final = 31  # window bits, with gzip's header
_TRANSFORM_OF: Final = {
    messages.Filter: "filter",
    messages.Map: "map",
    messages.ArrayMap: "array_map",
    messages.Aggregate: "aggregate",
    messages.FilterMap: "filter_map",
}


class ModuleLimits(NamedTuple):
    """What modules may take of a broker."""

    is_enabled: bool = True
    memory_bytes: int = 32 << 20  # of each module of a stream
    most_modules: int = 32  # of all streams together


class SmartModules:
    """All modules that streams of a broker use."""

    def __init__(self, limits: ModuleLimits) -> None:
        self._limits = limits
        self._runtime: ModuleRuntime | None = None
        self._lock = threading.Lock()
        self._in_use = 0

    def open(
        self, invocations: Sequence[SmartModuleInvocation], named: dict[str, bytes]
    ) -> "ModuleChain":
        """Make the modules of a stream ready. Runs on a thread. Raises RefusedModule.

        `named`: the packed modules that the cluster keeps, as far as they are asked for.
        """
        if not self._limits.is_enabled:
            raise RefusedModule.other("this cluster runs no SmartModules (fluvio.smartModules)")
        if len(invocations) > _MOST_IN_CHAIN:
            raise RefusedModule.other(f"a stream has at most {_MOST_IN_CHAIN} SmartModules")
        runtime = self._start_runtime()
        with self._lock:
            if self._in_use + len(invocations) > self._limits.most_modules:
                most = self._limits.most_modules
                raise RefusedModule.other(
                    f"streams of this broker use {most} SmartModules, the most that it runs at once"
                )
            self._in_use += len(invocations)
        try:
            instances = [_instance(runtime, one, named) for one in invocations]
        except BaseException:
            self._give_back(len(invocations))
            raise
        return ModuleChain(instances, lambda: self._give_back(len(invocations)))

    def _give_back(self, count: int) -> None:
        with self._lock:
            self._in_use -= count

    def _start_runtime(self) -> "ModuleRuntime":
        try:
            from kafscale.gateways.fluvio.smart_modules.module_instances import ModuleRuntime
        except ImportError:
            raise RefusedModule.other(
                "SmartModules need the package wasmtime on the broker: kafscale[smartmodules]"
            ) from None
        with self._lock:
            if self._runtime is None:
                self._runtime = ModuleRuntime(self._limits.memory_bytes)
            return self._runtime


def _instance(
    runtime: "ModuleRuntime", wanted: SmartModuleInvocation, named: dict[str, bytes]
) -> "ModuleInstance":
    from kafscale.gateways.fluvio.smart_modules.module_instances import ModuleInstance

    if wanted.lookback is not None:
        raise RefusedModule.other("SmartModules that look back are not supported")
    kind = wanted.kind
    accumulator = b""
    transform = _TRANSFORM_OF.get(type(kind))
    context = kind.context if isinstance(kind, messages.Generic) else kind
    if isinstance(context, messages.Aggregate):
        accumulator = context.accumulator
    elif isinstance(context, messages.Join | messages.JoinStream):
        raise RefusedModule.other("SmartModules that join topics are not supported")
    module = runtime.compile(unpacked(_packed(wanted, named)))
    return ModuleInstance(runtime, module, transform, wanted.params, accumulator)


def _packed(wanted: SmartModuleInvocation, named: dict[str, bytes]) -> bytes:
    if isinstance(wanted.wasm, messages.AdHoc):
        return wanted.wasm.wasm_gzip
    found = named.get(wanted.wasm.name)
    if found is None:
        raise RefusedModule(FluvioError(FluvioCode.SMART_MODULE_NOT_FOUND, (wanted.wasm.name,)))
    return found


def unpacked(packed: bytes) -> bytes:
    """A module as clients pack it. Raises RefusedModule."""
    stream = zlib.decompressobj(_GZIP)
    try:
        wasm = stream.decompress(packed, LARGEST_MODULE_BYTES + 1)
    except zlib.error:
        raise RefusedModule.invalid("it is not packed by gzip") from None
    if len(wasm) > LARGEST_MODULE_BYTES:
        raise RefusedModule.invalid(f"it has more than {LARGEST_MODULE_BYTES} bytes")
    return wasm


class ModuleChain:
    """The modules of one stream."""

    def __init__(self, instances: "list[ModuleInstance]", give_back: Callable[[], None]) -> None:
        self._instances = instances
        self._give_back = give_back

    def close(self) -> None:
        """Let go of the modules."""
        if self._instances:
            self._instances = []
            self._give_back()

    def process(self, runs: Sequence[OffsetRun]) -> tuple[list[OffsetRun], FluvioError | None, int]:
        """What becomes of runs of records. Runs on a thread. Raises RefusedModule.

        Gives an error that a module has found in a record, too, and the offset behind the last
        record that was looked at.
        """
        made: list[OffsetRun] = []
        for run in runs:
            records = _COUNT.pack(run.record_count) + bytes(run.records)
            deltas = list(range(run.record_count))
            error = None
            for instance in self._instances:
                output = instance.process(run.base_offset, run.first_ms, records)
                records, deltas, error = output.records, output.deltas, output.error
                if error is not None:
                    break
            made += _cut(run, records, deltas)
            if error is not None:
                found = FluvioError(FluvioCode.SMART_MODULE_RUNTIME_ERROR, error)
                return made, found, run.base_offset + run.record_count
        return made, None, -1


def _cut(run: OffsetRun, records: bytes, deltas: list[int]) -> list[OffsetRun]:
    """The runs in what a module gave for a run."""
    if not deltas:
        return []
    steps = [after - before for before, after in pairwise(deltas)]
    if deltas[0] < 0 or deltas[-1] >= run.record_count or any(step <= 0 for step in steps):
        return [run._replace(record_count=len(deltas), records=records[_COUNT.size :])]
    runs = []
    at = _COUNT.size
    begin = 0
    for index in range(1, len(deltas) + 1):
        if index == len(deltas) or steps[index - 1] != 1:
            end = _after_records(records, at, index - begin)
            base = run.base_offset + deltas[begin]
            runs.append(
                run._replace(base_offset=base, record_count=index - begin, records=records[at:end])
            )
            begin, at = index, end
    return runs


def _after_records(records: bytes, at: int, count: int) -> int:
    for _ in range(count):
        at = splice.after_record(records, at)
    return at

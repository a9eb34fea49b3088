"""Running SmartModules in wasmtime, each within its memory and its fuel.

A module has one import, `copy_records`, by which it gives its output, and sees nothing of the
machine: no clock, no files, no network. A module made for WASI finds its functions, and each one
says that it is not supported. Fuel is what a module may execute in one call. It grows with the
records of the call, so that a module that never ends is ended.
Here: one module, compiled and with its memory. Everything here takes long and runs on threads.
Next door: what goes in and out (module_bytes.py), the modules of a stream (chains.py).
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import wasmtime

from kafscale.gateways.fluvio.errors import RefusedModule
from kafscale.gateways.fluvio.smart_modules import module_bytes
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError

TRANSFORMS: Final = ("filter", "map", "filter_map", "array_map", "aggregate")
AGGREGATE: Final = "aggregate"
_COPY_RECORDS: Final = "copy_records"
_WASI: Final = "wasi_snapshot_preview1"
_WASI_NOT_SUPPORTED: Final = 52
_MOST_COMPILED: Final = 16
_FUEL_OF_CALL: Final = 100_000_000
_FUEL_PER_BYTE: Final = 1_000
_INIT_FAILED: Final = -2
_UNSIGNED: Final = 0xFFFF_FFFF
_MOST_WORDS: Final = 500
_MOST_TABLE: Final = 100_000


class ModuleRuntime:
    """Compiles modules; the newest stay compiled, for all streams that use them."""

    def __init__(self, memory_bytes: int) -> None:
        """`memory_bytes`: what each instance may have."""
        config = wasmtime.Config()
        config.consume_fuel = True
        self.engine = wasmtime.Engine(config)
        self.memory_bytes = memory_bytes
        self._compiled: OrderedDict[bytes, wasmtime.Module] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, wasm: bytes) -> wasmtime.Module:
        """A module ready to be run. Raises RefusedModule."""
        name = hashlib.sha256(wasm).digest()
        with self._lock:
            if name in self._compiled:
                self._compiled.move_to_end(name)
                return self._compiled[name]
        try:
            module = wasmtime.Module(self.engine, wasm)
        except wasmtime.WasmtimeError as problem:
            raise RefusedModule.invalid(f"it cannot be compiled: {problem}") from None
        with self._lock:
            self._compiled[name] = module
            while len(self._compiled) > _MOST_COMPILED:
                self._compiled.popitem(last=False)
        return module


class ModuleInstance:
    """A module with memory of its own, for one stream."""

    def __init__(
        self,
        runtime: ModuleRuntime,
        module: wasmtime.Module,
        transform: str | None,
        parameters: Mapping[str, str],
        accumulator: bytes = b"",
    ) -> None:
        """`transform`: the function to call; None: the one that is there. Raises RefusedModule."""
        self._runtime = runtime
        self._module = module
        self._parameters = parameters
        exported = {one.name for one in module.exports}
        found = [name for name in TRANSFORMS if name in exported]
        if transform not in found and (transform is not None or not found):
            wanted = transform or " or ".join(TRANSFORMS)
            raise RefusedModule(
                FluvioError(
                    FluvioCode.SMART_MODULE_INVALID_EXPORTS,
                    (f"there is no function {wanted}", transform or "Generic"),
                )
            )
        self.transform = transform or found[0]
        self._accumulator = accumulator
        self._start()

    def _start(self) -> None:
        """Begin with fresh memory."""
        self._output: tuple[int, int] | None = None
        store = self._store = wasmtime.Store(self._runtime.engine)
        store.set_limits(
            memory_size=self._runtime.memory_bytes,
            table_elements=_MOST_TABLE,
            instances=1,
            memories=1,
        )
        store.set_fuel(_FUEL_OF_CALL)
        try:
            imports = [self._import(one) for one in self._module.imports]
            self._exports = wasmtime.Instance(store, self._module, imports).exports(store)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as problem:
            raise RefusedModule.invalid(f"it does not start: {problem}") from None
        memory = self._exports.get("memory")
        if not isinstance(memory, wasmtime.Memory) or "alloc" not in self._exports:
            raise RefusedModule.invalid("it exports no memory, or no function alloc")
        self._memory = memory
        if "_initialize" in self._exports:
            self._function("_initialize")(store)
        self._init()

    def _import(self, wanted: wasmtime.ImportType) -> wasmtime.Func:
        kind = wanted.type
        if isinstance(kind, wasmtime.FuncType):
            if wanted.name == _COPY_RECORDS:
                return wasmtime.Func(self._store, kind, self._take_output)
            if wanted.module == _WASI:
                result = _WASI_NOT_SUPPORTED if len(kind.results) else None
                return wasmtime.Func(self._store, kind, lambda *_: result)
        raise RefusedModule.invalid(f"it needs {wanted.module}.{wanted.name}, which is not there")

    def _take_output(self, at: int, size: int) -> None:
        self._output = at & _UNSIGNED, size & _UNSIGNED

    def _init(self) -> None:
        if "init" not in self._exports:
            return
        outcome, output = self._call("init", module_bytes.write_init(self._parameters))
        if outcome < 0:
            words = module_bytes.read_init_error(output) if outcome == _INIT_FAILED else ""
            raise RefusedModule(
                FluvioError(FluvioCode.SMART_MODULE_INIT_ERROR, (words or f"init gives {outcome}",))
            )

    def process(self, base_offset: int, base_ms: int, records: bytes) -> module_bytes.ModuleOutput:
        """Give a module records, with their count in front. Raises RefusedModule."""
        given = module_bytes.write_input(base_offset, base_ms, records)
        is_aggregate = self.transform == AGGREGATE
        if is_aggregate:
            given += module_bytes.write_accumulator(self._accumulator)
        outcome, written = self._call(self.transform, given)
        if outcome < 0:
            raise RefusedModule.other(f"the SmartModule's {self.transform} gives {outcome}")
        try:
            output = module_bytes.read_output(written, has_accumulator=is_aggregate)
        except MalformedMessage as problem:
            words = f"what the SmartModule gives cannot be read: {problem}"
            raise RefusedModule.other(words) from None
        if is_aggregate:
            self._accumulator = output.accumulator
        # A module never frees what it gives. Its functions depend on their input alone.
        if self._memory.data_len(self._store) > self._runtime.memory_bytes // 2:
            self._start()
        return output

    def _call(self, name: str, given: bytes) -> tuple[int, bytes]:
        """Call a function with input; gives its result and its output."""
        store = self._store
        store.set_fuel(_FUEL_OF_CALL + _FUEL_PER_BYTE * len(given))
        self._output = None
        try:
            at = self._function("alloc")(store, len(given)) & _UNSIGNED
            if at + len(given) > self._memory.data_len(store):
                raise _too_much_memory(at + len(given), self._runtime.memory_bytes)
            self._memory.write(store, given, at)
            outcome = self._function(name)(store, _signed(at), len(given), module_bytes.VERSION)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as problem:
            raise self._refusal(name, problem) from None
        if self._output is None:
            return outcome, b""
        begin, size = self._output
        if begin + size > self._memory.data_len(store):
            raise RefusedModule.other("the SmartModule gives an output outside of its memory")
        return outcome, bytes(self._memory.read(store, begin, begin + size))

    def _function(self, name: str) -> Callable[..., Any]:
        found = self._exports.get(name)
        if not isinstance(found, wasmtime.Func):
            raise RefusedModule.invalid(f"{name} is no function")
        return found

    def _refusal(self, name: str, problem: Exception) -> RefusedModule:
        if self._store.get_fuel() == 0:
            return RefusedModule.other(f"the SmartModule's {name} takes too long: it was ended")
        used = self._memory.data_len(self._store)
        if used > self._runtime.memory_bytes * 3 // 4:
            return _too_much_memory(used, self._runtime.memory_bytes)
        words = str(problem).strip()[:_MOST_WORDS]
        return RefusedModule.other(f"the SmartModule's {name} has failed: {words}")


def _signed(number: int) -> int:
    return number - (_UNSIGNED + 1) if number > _UNSIGNED >> 1 else number


def _too_much_memory(wanted: int, most: int) -> RefusedModule:
    return RefusedModule(FluvioError(FluvioCode.SMART_MODULE_MEMORY_LIMIT, (wanted, most)))

"""SmartModules as requests name them: programs that a client wants to be run on records."""

from typing import Annotated

from kafscale.wire.fluvio.messages.objects import Duration
from kafscale.wire.fluvio.schema import U64, FluvioTable, OneOf, VersionSpan


class Predefined(FluvioTable, frozen=True):
    name: str = ""


class AdHoc(FluvioTable, frozen=True):
    wasm_gzip: bytes = b""


class Filter(FluvioTable, frozen=True):
    """A kind without fields; so are the next ones without a text."""


class Map(FluvioTable, frozen=True): ...


class ArrayMap(FluvioTable, frozen=True): ...


class Aggregate(FluvioTable, frozen=True):
    accumulator: bytes = b""


class FilterMap(FluvioTable, frozen=True): ...


class Join(FluvioTable, frozen=True):
    topic: str = ""


class JoinStream(FluvioTable, frozen=True):
    topic: str = ""
    derived_stream: str = ""


class Generic(FluvioTable, frozen=True):
    context: Annotated[
        Aggregate | Join | JoinStream | None, OneOf(None, Aggregate, Join, JoinStream)
    ] = None


class Lookback(FluvioTable, frozen=True):
    last: U64 = 0
    age: Annotated[Duration | None, VersionSpan(21)] = None


ModuleSource = Annotated[Predefined | AdHoc, OneOf(Predefined, AdHoc)]
ModuleKind = Annotated[
    Filter | Map | ArrayMap | Aggregate | FilterMap | Join | JoinStream | Generic,
    OneOf(Filter, Map, ArrayMap, Aggregate, FilterMap, Join, JoinStream, Generic),
]


class SmartModuleInvocation(FluvioTable, frozen=True):
    wasm: ModuleSource = Predefined()
    kind: ModuleKind = Filter()
    params: dict[str, str] = {}
    lookback: Annotated[Lookback | None, VersionSpan(20)] = None
    name: Annotated[str | None, VersionSpan(25)] = None

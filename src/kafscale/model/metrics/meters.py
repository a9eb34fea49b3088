"""Counters, gauges and histograms, and the text Prometheus reads.

Here: plain numbers in slots. A caller looks a series up once by its label values and keeps it.
Next door: which series a broker has (engine/metrics/series.py), the HTTP page that shows them
(gateways/ops_http.py). Never here: clocks, sockets, threads.

A scrape runs in the event loop, so it must be cheap: the text before each number is made when
the series is created, and a scrape only appends numbers, in steps between which others can run.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

OVERFLOW: Final = "_other"  # label value of the one series that counts for all beyond the limit
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SERIES_PER_STEP: Final = 64
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

# Rows of (label values, number), asked for at each scrape.
SampleSource = Callable[[], Iterable[tuple[Sequence[str], float]]]


class _Writable(Protocol):
    """A family of series."""

    def write(self, lines: list[str]) -> Iterator[None]:
        """Append the text of its series, with pauses in between."""
        ...


class Meter(Protocol):
    """One series, or the few that make a histogram."""

    def write(self, lines: list[str]) -> None:
        """Append its lines of text."""
        ...


class Counter:
    """Only rises."""

    __slots__ = ("_head", "value")

    def __init__(self, head: str) -> None:
        self._head = head
        self.value: float = 0

    def inc(self, by: float = 1) -> None:
        """Add."""
        self.value += by

    def write(self, lines: list[str]) -> None:
        """One line."""
        lines.append(self._head + _number(self.value))


class Gauge(Counter):
    """Goes up and down."""

    __slots__ = ()

    def set(self, value: float) -> None:
        """Replace."""
        self.value = value

    def dec(self, by: float = 1) -> None:
        """Subtract."""
        self.value -= by


class Histogram:
    """Counts values by size. `bounds` are inclusive upper ends, rising."""

    __slots__ = ("_bounds", "_counts", "_heads", "total")

    def __init__(self, bounds: Sequence[float], heads: Sequence[str]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._heads = heads  # of each bucket, then of the sum and of the count
        self.total: float = 0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def write(self, lines: list[str]) -> None:
        """One line per bucket, each counting the smaller ones too, then sum and count."""
        reached = 0
        *buckets, total, count = self._heads
        for head, more in zip(buckets, self._counts, strict=True):
            reached += more
            lines.append(head + str(reached))
        lines.append(total + _number(self.total))
        lines.append(count + str(reached))


MeterT = TypeVar("MeterT", bound=Meter)
FamilyT = TypeVar("FamilyT", bound="_Writable")


class Family(Generic[MeterT]):
    """All series of one name. Ask once for a series and keep it: that is the fast way."""

    def __init__(
        self,
        opening: str,
        label_names: Sequence[str],
        make: Callable[[Sequence[str]], MeterT],
        limit: int | None,
    ) -> None:
        self._opening = opening
        self._label_names = tuple(label_names)
        self._make = make
        self._limit = limit
        self._children: dict[tuple[str, ...], MeterT] = {}
        if not label_names:
            self.labels()  # a series without labels is there from the start, as zero

    def labels(self, *values: str) -> MeterT:
        """Find or make the series with these label values."""
        child = self._children.get(values)
        return child if child is not None else self._born(values)

    def forget(self, label_name: str, value: str) -> None:
        """Drop all series with this label value, as when a topic is deleted."""
        place = self._label_names.index(label_name)
        for values in [values for values in self._children if values[place] == value]:
            del self._children[values]

    def drop(self, *values: str) -> None:
        """Drop the one series with these label values, if it is there."""
        self._children.pop(values, None)

    def write(self, lines: list[str]) -> Iterator[None]:
        """Append the text of all series, in steps; nothing for a family without any."""
        if self._children:
            lines.append(self._opening)
        for number, child in enumerate(list(self._children.values()), start=1):
            child.write(lines)
            if not number % _SERIES_PER_STEP:
                yield

    def _born(self, values: tuple[str, ...]) -> MeterT:
        if len(values) != len(self._label_names):
            raise ValueError(f"{self._label_names} need as many values, not {values}")
        if self._limit is not None and len(self._children) >= self._limit:
            values = (OVERFLOW,) * len(values)
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._make(values)
        return child


class _Sampled:
    """A family whose numbers are asked for at each scrape."""

    def __init__(
        self, opening: str, head_of: Callable[[Sequence[str]], str], source: SampleSource
    ) -> None:
        self._opening = opening
        self._head_of = head_of
        self._source = source
        self._heads: dict[tuple[str, ...], str] = {}

    def write(self, lines: list[str]) -> Iterator[None]:
        """Append the rows of this moment, in steps. The heads of rows that are gone are dropped."""
        rows = list(self._source())
        yield
        heads: dict[tuple[str, ...], str] = {}
        if rows:
            lines.append(self._opening)
        for number, (values, value) in enumerate(rows, start=1):
            labels = tuple(values)
            head = heads[labels] = self._heads.get(labels) or self._head_of(labels)
            lines.append(head + _number(value))
            if not number % _SERIES_PER_STEP:
                yield
        self._heads = heads


class Registry:
    """All families of a process. `limit` caps the series of a family, see OVERFLOW."""

    def __init__(self) -> None:
        self._families: dict[str, _Writable] = {}

    def counter(
        self, name: str, help_text: str, label_names: Sequence[str] = (), limit: int | None = None
    ) -> Family[Counter]:
        """Add a family of counters."""
        opening = _opening(name, "counter", help_text, label_names)
        return self._add(
            name,
            Family(opening, label_names, lambda v: Counter(_head(name, label_names, v)), limit),
        )

    def gauge(
        self, name: str, help_text: str, label_names: Sequence[str] = (), limit: int | None = None
    ) -> Family[Gauge]:
        """Add a family of gauges."""
        opening = _opening(name, "gauge", help_text, label_names)
        return self._add(
            name,
            Family(opening, label_names, lambda v: Gauge(_head(name, label_names, v)), limit),
        )

    def histogram(
        self,
        name: str,
        help_text: str,
        bounds: Sequence[float],
        label_names: Sequence[str] = (),
        limit: int | None = None,
    ) -> Family[Histogram]:
        """Add a family of histograms."""
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"the bounds of {name} do not rise: {bounds}")
        ends = [*(_number(float(bound)) for bound in bounds), "+Inf"]

        def make(values: Sequence[str]) -> Histogram:
            labels = (*label_names, "le")
            heads = [_head(f"{name}_bucket", labels, (*values, end)) for end in ends]
            heads += [_head(f"{name}_{part}", label_names, values) for part in ("sum", "count")]
            return Histogram(bounds, heads)

        opening = _opening(name, "histogram", help_text, label_names)
        return self._add(name, Family(opening, label_names, make, limit))

    def sampled(
        self,
        name: str,
        help_text: str,
        source: SampleSource,
        label_names: Sequence[str] = (),
        kind: str = "gauge",
    ) -> None:
        """Add a family whose rows `source` gives at each scrape."""
        opening = _opening(name, kind, help_text, label_names)
        self._add(name, _Sampled(opening, lambda v: _head(name, label_names, v), source))

    def render(self) -> bytes:
        """Write everything in Prometheus' text format."""
        steps = self.render_in_steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                text: bytes = end.value
                return text

    def render_in_steps(self) -> Generator[None, None, bytes]:
        """The same, with pauses between series: there may be very many."""
        lines: list[str] = []
        for family in list(self._families.values()):
            yield from family.write(lines)
        lines.append("")
        return "\n".join(lines).encode("utf-8")

    def _add(self, name: str, family: FamilyT) -> FamilyT:
        if name in self._families:
            raise ValueError(f"there is a family {name} already")
        self._families[name] = family
        return family


def _opening(name: str, kind: str, help_text: str, label_names: Sequence[str]) -> str:
    for part in (name, *label_names):
        if not _NAME.fullmatch(part):
            raise ValueError(f"not a name a series or a label may have: {part!r}")
    text = help_text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}"


def _head(name: str, label_names: Sequence[str], values: Sequence[str]) -> str:
    if not label_names:
        return f"{name} "
    pairs = zip(label_names, values, strict=True)
    labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in pairs)
    return f"{name}{{{labels}}} "


def _escaped(value: str) -> str:
    # Names come from clients and need not be valid Unicode.
    text = value.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    text = str(value)
    # Python writes inf and nan as words of its own.
    return text if text[-1].isdigit() else {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}[text]

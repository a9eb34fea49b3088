"""Numbers over time: an hour in steps of 5 s, a day in steps of a minute, in memory.

Here: rings of floats. A moment without a reading is a gap, never a zero. Next door: where the
numbers come from (watcher.py).
"""

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

STEP_S: Final = 5
LONG_STEP_S: Final = 60
_SHORT: Final = 720
_LONG: Final = 1440
MOST_SERIES: Final = 2000
_GAP: Final = math.nan
SPANS_S: Final = {"15m": 900, "1h": 3600, "6h": 6 * 3600, "24h": 24 * 3600}

Labels = tuple[tuple[str, str], ...]
SeriesKey = tuple[str, Labels]


class HistoryLine(NamedTuple):
    """One series of an answer."""

    name: str
    labels: dict[str, str]
    values: list[float | None]


class _Ring:
    """A fixed number of steps; a step that was never written is a gap."""

    __slots__ = ("last", "step_s", "values")

    def __init__(self, size: int, step_s: int) -> None:
        self.step_s = step_s
        self.values = array("f", [_GAP]) * size
        self.last = -1  # the number of the newest step

    def put(self, now_s: float, value: float) -> None:
        step, size = int(now_s // self.step_s), len(self.values)
        if step > self.last:
            for missed in range(max(self.last + 1, step - size + 1), step):
                self.values[missed % size] = _GAP
            self.last = step
        elif step < self.last:
            return
        self.values[step % size] = value

    def get(self, step: int) -> float | None:
        if not self.last - len(self.values) < step <= self.last:
            return None
        value = self.values[step % len(self.values)]
        return None if math.isnan(value) else value


class SeriesHistory:
    """All series that the console keeps."""

    def __init__(self, most_series: int = MOST_SERIES) -> None:
        self._most = most_series
        self._series: dict[SeriesKey, tuple[_Ring, _Ring]] = {}
        self.left_out = 0  # points of series for which there was no room

    def __len__(self) -> int:
        return len(self._series)

    def put(self, now_s: float, name: str, value: float | None, labels: Labels = ()) -> None:
        """Note a number; None is a gap."""
        if value is None:
            return
        rings = self._series.get((name, labels))
        if rings is None:
            if len(self._series) >= self._most and not self._make_room(now_s):
                self.left_out += 1
                return
            rings = _Ring(_SHORT, STEP_S), _Ring(_LONG, LONG_STEP_S)
            self._series[name, labels] = rings
        for ring in rings:
            ring.put(now_s, value)

    def _make_room(self, now_s: float) -> bool:
        """Forget a series that has had no number for an hour."""
        oldest = now_s - _SHORT * STEP_S
        for key, (short, _) in self._series.items():
            if short.last * STEP_S < oldest:
                del self._series[key]
                return True
        return False

    def read(
        self, now_s: float, span: str, names: Iterable[str], labels: Mapping[str, str]
    ) -> tuple[list[int], int, list[HistoryLine]]:
        """Give moments in ms, the step, and every line of these names that has these labels."""
        span_s = SPANS_S[span]
        is_short = span_s <= _SHORT * STEP_S
        step_s = STEP_S if is_short else LONG_STEP_S
        last = int(now_s // step_s)
        steps = range(last - span_s // step_s + 1, last + 1)
        wanted = frozenset(names)
        lines = [
            HistoryLine(
                name, dict(found), [rings[0 if is_short else 1].get(step) for step in steps]
            )
            for (name, found), rings in self._series.items()
            if name in wanted and labels.items() <= dict(found).items()
        ]
        return [step * step_s * 1000 for step in steps], step_s, lines

    def newest(self, name: str, labels: Labels, now_s: float, within_s: float) -> list[float]:
        """The numbers of one series within the last seconds, oldest first, without gaps."""
        rings = self._series.get((name, labels))
        if rings is None:
            return []
        last = int(now_s // STEP_S)
        steps = range(last - int(within_s // STEP_S), last + 1)
        found = (rings[0].get(step) for step in steps)
        return [value for value in found if value is not None]

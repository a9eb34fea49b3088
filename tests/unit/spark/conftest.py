"""Jobs without Spark: units are worked on here, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark import cloudpickle

from kafscale.spark.execution import units
from tests.unit.spark.values.schema_registry import FakeSchemaRegistry


class Units:
    """What `run_units` was asked to do; `stop_after` units it dies, as a driver does."""

    def __init__(self) -> None:
        self.done = 0
        self.stop_after = -1

    def run(
        self,
        _spark: object,
        some: Sequence[Any],
        work: Callable[[Any], Any],
        *,
        progress: units.ShowUnits | None = None,
    ) -> list[Any]:
        work = cloudpickle.loads(cloudpickle.dumps(work))  # it must be able to travel
        found = []
        for number, unit in enumerate(some):
            if self.done == self.stop_after:
                raise KeyboardInterrupt
            found.append(work(unit))
            self.done += 1
            if progress is not None:
                progress(number + 1, len(some))
        return found


@pytest.fixture
def local_units(monkeypatch: pytest.MonkeyPatch) -> Units:
    """Units are done in this process."""
    found = Units()
    monkeypatch.setattr(units, "run_units", found.run)
    return found


@pytest.fixture
def schema_registry() -> Iterator[FakeSchemaRegistry]:
    made = FakeSchemaRegistry()
    yield made
    made.close()

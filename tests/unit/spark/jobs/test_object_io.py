"""A worker asks a silent store again: so many times, after pauses that grow."""

import asyncio

import pytest

from kafscale.model.errors import ObjectMissing, StoreUnavailable
from kafscale.spark.jobs.logs import object_io
from tests.support.virtual_time import VirtualTimeLoop


class SilentStore:
    """A store that fails the first requests and answers the next; it notes when each one came."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.requests_s: list[float] = []

    async def read(self, key: str) -> str:
        self.requests_s.append(asyncio.get_running_loop().time())
        if len(self.requests_s) <= self.failures:
            raise StoreUnavailable("no answer")
        return key

    async def read_missing(self, key: str) -> str:
        self.requests_s.append(asyncio.get_running_loop().time())
        raise ObjectMissing(key)

    def pauses_s(self) -> list[float]:
        return [
            after - before
            for before, after in zip(self.requests_s, self.requests_s[1:], strict=False)
        ]


def test_pauses_double_and_the_fifth_attempt_is_the_last() -> None:
    store = SilentStore(failures=4)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(object_io.with_retries(store.read, "a")) == "a"
    assert store.pauses_s() == pytest.approx([0.2, 0.4, 0.8, 1.6])


def test_a_store_that_stays_silent_fails_the_unit_after_five_attempts() -> None:
    store = SilentStore(failures=100)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.raises(StoreUnavailable):
        runner.run(object_io.with_retries(store.read, "a"))
    assert len(store.requests_s) == 5


def test_a_missing_object_is_asked_for_once() -> None:
    store = SilentStore(failures=0)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.raises(ObjectMissing):
        runner.run(object_io.with_retries(store.read_missing, "a"))
    assert len(store.requests_s) == 1

"""The loop of tests in virtual time: a test fails if an error went unseen in it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.virtual_time import UnseenFailure, VirtualTimeLoop


class Broken(Exception):
    """The error that the tests here raise."""


async def fail() -> None:
    raise Broken


def call_back_in_error() -> None:
    raise Broken


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine as pytest runs a test; the end of the block closes the loop."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work)


async def hold_a_task_that_fails(held: list[asyncio.Task[None]]) -> None:
    held.append(asyncio.get_running_loop().create_task(fail()))
    await asyncio.sleep(1)


async def drop_a_future_that_fails() -> None:
    asyncio.get_running_loop().create_future().set_exception(Broken())


async def call_back() -> None:
    asyncio.get_running_loop().call_soon(call_back_in_error)
    await asyncio.sleep(1)


def test_a_task_whose_error_no_code_looked_at_fails_the_test() -> None:
    held: list[asyncio.Task[None]] = []
    with pytest.raises(UnseenFailure, match="Broken"):
        run(hold_a_task_that_fails(held))


@pytest.mark.parametrize("work", [drop_a_future_that_fails, call_back])
def test_a_future_or_a_callback_with_an_unseen_error_fails_the_test(work: Any) -> None:
    with pytest.raises(UnseenFailure, match="Broken"):
        run(work())


def test_an_error_that_the_test_looked_at_is_no_failure() -> None:
    async def look() -> None:
        held: list[asyncio.Task[None]] = []
        await hold_a_task_that_fails(held)
        assert isinstance(held[0].exception(), Broken)

    run(look())

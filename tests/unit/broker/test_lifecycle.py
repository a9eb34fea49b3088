"""In which order a broker starts and ends."""

import asyncio
from typing import Any, cast

import pytest

from kafscale.broker.lifecycle import Lifecycle
from kafscale.broker.wiring import Broker
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import MetadataUnavailable


class Recorder:
    """A part that writes down what is done to it; a failing one raises then."""

    def __init__(self, name: str, done: list[str], answers: dict[str, Any] | None = None) -> None:
        self._name, self._done, self._answers = name, done, answers or {}

    def __getattr__(self, verb: str) -> Any:
        def act(*_: object) -> Any:
            self._done.append(f"{self._name}.{verb}")
            answer = self._answers.get(verb)
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def act_later(*given: object) -> Any:
            return act(*given)

        return act if verb in ("close", "stop_reading") else act_later


def life_of(done: list[str], **answers: Any) -> Lifecycle:
    broker = Recorder("broker", done)
    engine = Recorder("engine", done, answers)
    engine.__dict__["cluster"] = Recorder("cluster", done, answers)
    engine.__dict__["identity"] = type("Identity", (), {"broker_id": 7})()
    broker.__dict__["engine"] = engine
    broker.__dict__["doors"] = Recorder("doors", done, {"open": {"P": Endpoint("h", 1)}})
    return Lifecycle(cast(Broker, broker), "rack")


async def test_clients_are_let_in_last_and_others_told_after_that() -> None:
    done: list[str] = []
    assert await life_of(done).start() == {"P": Endpoint("h", 1)}
    assert done == ["engine.start", "broker.before_clients", "doors.open", "cluster.join"]


async def test_what_waits_is_committed_while_its_producers_are_connected() -> None:
    done: list[str] = []
    life = life_of(done)
    await life.leave()
    await life.aclose()
    assert done == [
        "cluster.leave",
        "doors.close",
        "doors.stop_reading",
        "engine.aclose",
        "doors.aclose",
    ]


async def test_connections_end_also_when_the_engine_cannot_commit() -> None:
    done: list[str] = []
    with pytest.raises(RuntimeError):
        await life_of(done, aclose=RuntimeError("the store is gone")).aclose()
    assert done == ["engine.aclose", "doors.aclose"]


async def test_a_broker_that_must_not_go_on_says_why() -> None:
    with pytest.raises(MetadataUnavailable, match="the lease is lost"):
        await life_of([], failure="the lease is lost").wait(asyncio.Event())


async def test_a_broker_waits_until_it_is_asked_to_leave() -> None:
    leaving = asyncio.Event()
    leaving.set()
    await life_of([], failure="").wait(leaving)

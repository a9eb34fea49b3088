"""A remote service that is asked over a connection that may fail.

Here: what the simulated bucket and the simulated metadata store have in common. A request travels,
is carried out at one moment in the world outside, and its answer travels back. Either may get
lost, and a write whose answer was given up may be carried out later.
Next door: store.py, metadata.py.
"""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Final, TypeVar

_T = TypeVar("_T")
_LOST_WITH_SENDER: Final = 0.5  # requests that a crash takes along


@dataclass(slots=True)
class RemoteFaults:
    """How slow and how faulty the service is. By default: at once and without a fault."""

    latency_s: float = 0.0
    jitter_s: float = 0.0
    fail_chance: float = 0.0  # nothing happens, an error comes
    lost_answer_chance: float = 0.0  # it happens, an error comes
    late_chance: float = 0.0  # an error comes, then it happens
    latest_s: float = 0.0  # how much later
    give_up_s: float = 5.0  # how long one waits for an answer that does not come


class Remote:
    """What all connections to one service share."""

    def __init__(
        self,
        name: str,
        seed: int,
        faults: RemoteFaults | None,
        context: Context | None,
        note: Callable[[str], None],
    ) -> None:
        """`context`: where requests are carried out, outside of every process."""
        self.name = name
        self.faults = faults or RemoteFaults()
        self.dice = random.Random(f"{seed}/{name}")
        self.context = context
        self.note = note
        self.is_down = False

    def delay_s(self) -> float:
        """Give the delay of one way."""
        return self.faults.latency_s + self.dice.random() * self.faults.jitter_s


class Line:
    """One process's connection to a remote service."""

    def __init__(self, remote: Remote, error: Callable[[str], Exception]) -> None:
        """Fail with `error`: what was asked for may or may not have been done."""
        self.remote = remote
        self._error = error
        self._writes_s = 0.0
        self._begun = 0
        self._done = 0
        self.is_cut = False  # this process alone does not get through
        self.is_dead = False  # the process has crashed; what is on its way may still arrive

    async def ask(self, what: str, deed: Callable[[], _T], *, in_order: bool = False) -> _T:
        """Have `deed` carried out there.

        `in_order`: such deeds of one line are never carried out in another order than asked for.
        """
        loop = asyncio.get_running_loop()
        remote = self.remote
        there_s, back_s = remote.delay_s(), remote.delay_s()
        answer: asyncio.Future[_T] = loop.create_future()
        at_s = loop.time() + there_s
        if in_order:
            self._begun += 1
            at_s = self._writes_s = max(self._writes_s, at_s)
        request = _Request(self, what, deed, answer, back_s, self._begun if in_order else 0)
        fate = self._draw()
        if fate == "fail":
            remote.note(f"{remote.name} {what} fails")
            loop.call_at(at_s + back_s, request.fail, "was not done", context=remote.context)
        elif fate == "late":
            told_s = loop.time() + remote.dice.random() * remote.faults.give_up_s
            loop.call_at(told_s, request.fail, "was not answered", context=remote.context)
            late_s = told_s + remote.dice.random() * remote.faults.latest_s
            loop.call_at(late_s, request.carry_out, True, True, context=remote.context)
        else:
            lost = fate == "lost"
            loop.call_at(at_s, request.carry_out, lost, False, context=remote.context)
            if lost:
                loop.call_at(at_s + back_s, request.fail, "is unclear", context=remote.context)
        return await answer

    def _draw(self) -> str:
        faults = self.remote.faults
        chance = self.remote.dice.random()
        for fate, share in (
            ("fail", faults.fail_chance),
            ("lost", faults.lost_answer_chance),
            ("late", faults.late_chance),
        ):
            if chance < share:
                return fate
            chance -= share
        return ""

    def error(self, why: str) -> Exception:
        """Give the error that a caller gets."""
        return self._error(why)

    def reaches(self, number: int, is_late: bool) -> bool:
        """Whether a request gets there now; late ones never overtake those after them."""
        if self.remote.is_down or self.is_cut:
            return False
        if self.is_dead and self.remote.dice.random() < _LOST_WITH_SENDER:
            return False
        if is_late and 0 < number < self._done:
            return False
        self._done = max(self._done, number)
        return True


class _Request:
    def __init__(
        self,
        line: Line,
        what: str,
        deed: Callable[[], _T],
        answer: "asyncio.Future[_T]",
        back_s: float,
        number: int,
    ) -> None:
        self._line = line
        self._what = what
        self._deed = deed
        self._answer = answer
        self._back_s = back_s
        self._number = number

    def fail(self, why: str) -> None:
        if not self._answer.done():
            name = self._line.remote.name
            self._answer.set_exception(self._line.error(f"simulated: {name} {self._what} {why}"))

    def carry_out(self, is_unheard: bool, is_late: bool) -> None:
        remote = self._line.remote
        if not self._line.reaches(self._number, is_late):
            remote.note(f"{remote.name} {self._what} does not get through")
            self._later(self.fail, "did not get through")
            return
        problem: Exception | None = None
        result: object = None
        try:
            result = self._deed()
        except Exception as raised:
            problem = raised
        remote.note(f"{remote.name} {self._what} {type(problem).__name__ if problem else ''}")
        if not is_unheard:
            self._later(self._tell, result, problem)

    def _tell(self, result: object, problem: Exception | None) -> None:
        if self._answer.done():
            return
        if problem is not None:
            self._answer.set_exception(problem)
        else:
            self._answer.set_result(result)  # type: ignore[arg-type]

    def _later(self, call: Callable[..., None], *args: object) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._back_s, call, *args, context=self._line.remote.context)

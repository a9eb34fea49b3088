"""An event loop in which time is a number and processes are queues.

Here: virtual time that jumps to the next thing to do; several simulated processes in one loop,
each with a queue and timers of its own, which can be paused and crashed; the trace.
Next door: the network behind `create_server` (network.py).
Never here: a selector, a thread, the machine's clock.

Within a process callbacks run in the order asyncio gives them. Between processes the seed decides:
every round of a process takes it a little time, drawn anew.
"""

import asyncio
import heapq
import random
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

_T = TypeVar("_T")
_OUR_PROCESS: Final[ContextVar["SimulatedProcess"]] = ContextVar("simulated_process")
_ROUND_S: Final = 100e-6  # longest time that one round of callbacks takes
_THREAD_S: Final = 5e-3  # longest time that work in another thread takes
_BEGIN_S: Final = 1000.0


class SimulationStuck(Exception):
    """No event is left to happen, or too many have happened."""


def current_process_of(context: Context) -> "SimulatedProcess | None":
    """The process that a context belongs to."""
    return context.get(_OUR_PROCESS)


class _Network(Protocol):
    def listen(
        self, process: "SimulatedProcess", factory: Callable[[], Any], host: str, port: int
    ) -> Any: ...


class SimulatedProcess:
    """Callbacks that stop together. What runs in its context belongs to it."""

    def __init__(self, loop: "SimulatedLoop", name: str, *, takes_time: bool) -> None:
        self.loop = loop
        self.name = name
        self.is_alive = True
        self.suspended_s = 0.0  # time its steady clock did not see
        self.held_until = 0.0
        self.ready: deque[Handle] = deque()
        self.timers: list[tuple[float, int, TimerHandle]] = []
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.takes_time = takes_time
        self.on_crash: list[Callable[[], None]] = []
        self._context = copy_context()
        self._context.run(self.enter)

    def enter(self) -> None:
        """Let what runs in the current context from now on belong to this process."""
        _OUR_PROCESS.set(self)

    def context(self) -> Context:
        """A context in which what is called belongs to this process."""
        return self._context.copy()

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run a coroutine as this process."""
        return self.loop.create_task(work, context=self.context())

    def pause(self, for_s: float, *, suspended: bool = False) -> None:
        """Do nothing for a while; what falls due meanwhile happens late.

        `suspended`: the machine sleeps, so that its steady clock stands still, too.
        """
        self.held_until = max(self.held_until, self.loop.time() + for_s)
        if suspended:
            self.suspended_s += for_s

    def crash(self) -> None:
        """End at once. Not one more line of its code runs, no `finally` either."""
        self.is_alive = False
        self.ready.clear()
        self.timers.clear()
        self.loop.bury([task for task in self.tasks if not task.done()])
        for cut in self.on_crash:
            cut()

    def next_at(self) -> float | None:
        """When it has something to do, or None."""
        if self.ready:
            return self.held_until
        while self.timers and self.timers[0][2].cancelled():
            heapq.heappop(self.timers)
        return max(self.timers[0][0], self.held_until) if self.timers else None

    def run_round(self, now_s: float) -> int:
        """Run what is due, as one turn of an event loop does; gives how many callbacks ran."""
        ready = self.ready
        while self.timers and self.timers[0][0] <= now_s:
            ready.append(heapq.heappop(self.timers)[2])
        count = len(ready)
        for _ in range(count):
            if not ready:
                break  # it crashed in the middle
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
        return count


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs everything in this thread; what would leave it raises NotImplementedError."""

    def __init__(self, seed: int) -> None:
        """Begin at a time that is the same for every seed."""
        self._now_s = _BEGIN_S
        self._dice = random.Random(f"{seed}/loop")
        self._order = 0
        self._rounds = 0
        self._is_closed = False
        self._is_running = False
        self._graves: list[object] = []
        self._processes: list[SimulatedProcess] = []
        self._hash = blake2b(digest_size=16)
        self.lines: list[str] | None = None  # a list keeps the trace in words
        self.failures: list[
            str
        ] = []  # callbacks and tasks that ended in an error that no code handled
        self.network: _Network | None = None
        self.longest_s = 1000.0
        self.most_rounds = 500_000
        self.world = self.process("world", takes_time=False)

    # -- processes and the trace ---------------------------------------------------------------

    def process(self, name: str, *, takes_time: bool = True) -> SimulatedProcess:
        """Add a process."""
        made = SimulatedProcess(self, name, takes_time=takes_time)
        self._processes.append(made)
        return made

    def current_process(self) -> SimulatedProcess:
        """The process whose code runs now."""
        return _OUR_PROCESS.get()

    def bury(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Keep tasks that will never go on: collecting them would run their `finally`."""
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._graves += tasks

    def note(self, what: str) -> None:
        """Write into the trace."""
        self._hash.update(f"{self._now_s:.6f} {what}".encode())
        self.say(what)

    def say(self, what: str) -> None:
        """Write a line that only people read."""
        if self.lines is not None:
            self.lines.append(f"{self._now_s:.6f} {what}")

    def trace_hash(self) -> str:
        """Give a digest of the trace: the same for the same run."""
        return self._hash.hexdigest()

    # -- running -------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        """Run the world's coroutine to its end."""
        task = self.world.start(future) if asyncio.iscoroutine(future) else future
        asyncio._set_running_loop(self)
        self._is_running = True
        try:
            while not task.done():
                self._run_next()
        finally:
            self._is_running = False
            asyncio._set_running_loop(None)
        return task.result()

    def _run_next(self) -> None:
        chosen, earliest = None, 0.0
        for process in self._processes:
            if not process.is_alive:
                continue
            at = process.next_at()
            if at is not None and (chosen is None or at < earliest):
                chosen, earliest = process, at
        if chosen is None:
            raise SimulationStuck("every process waits for something that cannot come")
        self._now_s = max(self._now_s, earliest)
        self._rounds += 1
        if self._now_s > _BEGIN_S + self.longest_s or self._rounds > self.most_rounds:
            raise SimulationStuck(f"{self._rounds} rounds by {self._now_s:.3f}, and no end")
        count = chosen.run_round(self._now_s)
        self._hash.update(b"%d %s %d" % (int(self._now_s * 1e6), chosen.name.encode(), count))
        if chosen.takes_time:
            busy_s = self._dice.random() * _ROUND_S
            chosen.held_until = max(chosen.held_until, self._now_s + busy_s)

    def is_running(self) -> bool:
        """Whether run_until_complete is under way."""
        return self._is_running

    def is_closed(self) -> bool:
        """Whether close was called."""
        return self._is_closed

    def close(self) -> None:
        """Forget everything; errors of what is collected from now on are ignored."""
        self._is_closed = True
        for process in self._processes:
            if process.is_alive:
                process.on_crash.clear()
                process.crash()
        self._graves.clear()
        self._processes.clear()
        self.network = None

    # -- what asyncio asks of a loop -----------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    def get_debug(self) -> bool:
        """Never: stack traces per callback would cost more than the callbacks."""
        return False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Queue for the process whose context it is."""
        context = copy_context() if context is None else context
        handle = Handle(callback, args, self, context)
        process = context.get(_OUR_PROCESS)
        if process is not None and process.is_alive:
            process.ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """There is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> TimerHandle:
        """Queue for later."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> TimerHandle:
        """Queue for a time."""
        context = copy_context() if context is None else context
        handle = TimerHandle(when, callback, args, self, context)
        process = context.get(_OUR_PROCESS)
        if process is not None and process.is_alive:
            self._order += 1
            heapq.heappush(process.timers, (when, self._order, handle))
        return handle

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """It is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, _T], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[_T]:
        """Make a task; it belongs to the process whose context it gets."""
        context = copy_context() if context is None else context
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        process = context.get(_OUR_PROCESS)
        if process is not None:
            process.tasks.add(task)
            if not process.is_alive:
                self.bury([task])
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        """Work that a thread would do is done here, a little later, whole."""
        done = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as problem:
                done.set_exception(problem)

        self.call_later(self._dice.random() * _THREAD_S, work)
        return done

    async def create_server(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Listen on the simulated network."""
        if self.network is None:
            raise NotImplementedError("this loop has no network")
        return self.network.listen(self.current_process(), protocol_factory, host, port)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Remember the failure: a run with one is not a good run."""
        if self._is_closed:
            return
        problem = context.get("exception")
        self.failures.append(f"{context.get('message')}: {problem!r}")
        self.note(f"failure {problem!r}")

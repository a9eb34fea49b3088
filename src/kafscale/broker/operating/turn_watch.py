"""A debug switch: reports every turn of the event loop that takes long, with its cause.

Here: a thread that asks the event loop for a sign of life, again and again. If the sign is late,
the thread looks at what the loop is doing, and reports it when the sign has come. This sees what a
client feels: how long the loop takes until it gets to something new. It costs the loop a callback
every few milliseconds, and nothing while the switch is off.
Next door: the setting (settings/sections.py), how work is kept short (turns.py).
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

import structlog

from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka.calls.call import Call

logger = structlog.get_logger()

_SIGNS_PER_TURN: Final = 10  # so many signs are asked for in the time of a long turn
_SHOWN_FRAMES: Final = 4
_PACKAGE: Final = "kafscale"


class TurnWatch:
    """Watches the loop that it was started in until it is stopped."""

    def __init__(self, longest_s: float, report: Callable[..., None] | None = None) -> None:
        """`report` gets the facts of each long turn; without one they are logged."""
        self._longest_s = longest_s
        self._report = report or (lambda **facts: logger.warning("long_turn", **facts))
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin. Must be called in the loop's thread."""
        loop, ident = asyncio.get_running_loop(), threading.get_ident()
        self._thread = threading.Thread(
            target=self._watch, args=(loop, ident), name="turn watch", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End. A report of the turn that is under way is not waited for."""
        self._stopping.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        cpu_clock = time.pthread_getcpuclockid(ident)
        while not self._stopping.wait(self._longest_s / _SIGNS_PER_TURN):
            sign = threading.Event()
            began_s, cpu_began_s = time.perf_counter(), time.clock_gettime(cpu_clock)
            try:
                loop.call_soon_threadsafe(sign.set)
            except RuntimeError:
                return  # the loop is closed
            if sign.wait(self._longest_s):
                continue
            frames = sys._current_frames()  # noqa: SLF001 - the public way to see other threads
            cause = _describe(loop, frames.get(ident))
            while not sign.wait(1.0):
                if self._stopping.is_set():
                    return
            self._report(
                turn_ms=round((time.perf_counter() - began_s) * 1000),
                cpu_ms=round((time.clock_gettime(cpu_clock) - cpu_began_s) * 1000),
                **cause,
            )


def _describe(loop: asyncio.AbstractEventLoop, frame: FrameType | None) -> dict[str, object]:
    """What the loop is doing: where in the code, for which task, for which request."""
    facts: dict[str, object] = {}
    places: list[str] = []
    while frame is not None:
        code = frame.f_code
        module = str(frame.f_globals.get("__name__", ""))
        # Codecs are compiled at run time and have no module; the innermost place always counts.
        if not places or (module.startswith(_PACKAGE) and len(places) < _SHOWN_FRAMES):
            places.append(f"{module or code.co_filename}.{code.co_name}:{frame.f_lineno}")
        for held in list(frame.f_locals.values()):
            _add_request(held, facts)
        frame = frame.f_back
    task = asyncio.current_task(loop)
    return {"at": " < ".join(places), "task": task.get_name() if task else "callback", **facts}


def _add_request(held: object, facts: dict[str, object]) -> None:
    """Add what a local variable tells about the request at hand; the innermost one counts."""
    if isinstance(held, Call):
        if held.message is not None:
            facts.setdefault("api", type(held.message).__name__.removesuffix("Request"))
        facts.setdefault("client_id", held.client_id)
        facts.setdefault("peer", held.peer)
    elif isinstance(held, Connection):
        facts.setdefault("peer", held.peer)

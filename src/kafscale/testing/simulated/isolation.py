"""The wall between a simulation and the real world.

Here: while it stands, this thread cannot read the machine's clock, throw its dice, sleep, start a
thread or open a socket: it raises instead. Other threads go on as before.
Next door: what a simulation uses instead (loop.py, clock.py).
"""

import contextlib
import gc
import logging
import os
import random
import socket
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import structlog

_FORBIDDEN: Final[tuple[tuple[Any, str], ...]] = (
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
    *((time, name) for name in ("clock_gettime", "perf_counter", "perf_counter_ns")),
    *((random, name) for name in ("random", "randint", "randrange", "choice", "shuffle")),
    *((random, name) for name in ("uniform", "randbytes", "sample")),
    (os, "urandom"),
    (uuid, "uuid4"),
    (uuid, "uuid1"),
    (threading.Thread, "start"),
    (socket, "socket"),
    (socket, "create_connection"),
)


class TouchedTheRealWorld(Exception):
    """Simulated code used something that the seed does not decide."""


def _fenced(name: str, real: Callable[..., Any], thread: int) -> Callable[..., Any]:
    def fenced(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == thread:
            raise TouchedTheRealWorld(name)
        return real(*args, **kwargs)

    return fenced


@contextlib.contextmanager
def isolated(hear: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep the real world out. Logs go to `hear`, or nowhere; garbage goes at the end."""
    with contextlib.ExitStack() as undo:
        undo.enter_context(_logs_to(hear))
        undo.enter_context(_collected_at_the_end())
        thread = threading.get_ident()
        for owner, name in _FORBIDDEN:
            real = getattr(owner, name)
            undo.callback(setattr, owner, name, real)
            setattr(owner, name, _fenced(f"{owner.__name__}.{name}", real, thread))
        yield


@contextlib.contextmanager
def _logs_to(hear: Callable[[str], None] | None) -> Iterator[None]:
    def take(_logger: Any, method: str, event: Any) -> Any:
        if hear is not None:
            facts = {key: value for key, value in event.items() if key != "exc_info"}
            hear(f"log {method} {facts}")
        raise structlog.DropEvent

    before = structlog.get_config()
    level = logging.CRITICAL if hear is None else logging.DEBUG
    structlog.configure(
        processors=[take],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)


@contextlib.contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """When garbage goes depends on everything else in this process, so none goes during a run.

    What crashed processes leave behind is half-run: its last words are of no interest.
    """
    was_enabled, hook = gc.isenabled(), sys.unraisablehook
    gc.disable()
    gc.freeze()
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=".*was never awaited", category=RuntimeWarning
            )
            yield
            gc.collect()
    finally:
        sys.unraisablehook = hook
        gc.unfreeze()
        if was_enabled:
            gc.enable()

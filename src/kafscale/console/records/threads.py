"""From a thread that yields to a stream that can be awaited, and stopped.

Here: one thread per stream; it waits while the reader is slow and ends when the reader has gone.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")
_AHEAD: Final = 4  # events that wait for the reader
_LOOK_S: Final = 0.5
_END: Final = object()


async def stream_from_thread(
    work: Callable[[Callable[[], bool]], Iterator[T]],
) -> AsyncIterator[T | None]:
    """Yield what `work` yields in a thread; None: nothing came for a while.

    `work` gets a function that says whether it must stop.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Any] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD)
    stop = threading.Event()

    def put(item: Any) -> None:
        while not room.acquire(timeout=_LOOK_S):
            if stop.is_set():
                return
        if not stop.is_set():
            loop.call_soon_threadsafe(queue.put_nowait, item)

    def run() -> None:
        try:
            for item in work(stop.is_set):
                put(item)
                if stop.is_set():
                    return
            put(_END)
        except Exception as bad:
            put(bad)

    running = loop.run_in_executor(None, run)
    try:
        while True:
            try:
                async with asyncio.timeout(_LOOK_S):
                    item = await queue.get()
            except TimeoutError:
                yield None
                continue
            room.release()
            if item is _END:
                return
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        stop.set()
        await asyncio.shield(running)

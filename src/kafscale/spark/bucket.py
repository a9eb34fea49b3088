"""The bucket as synchronous code sees it, on the driver and in every Python worker.

Here: one event loop in a thread per process, one open store per URL; topics and logs found by
nothing but the bucket. A Bucket travels to executors as its URL alone.
Next door: which store a URL names (settings/locations.py), what a log consists of
(log/protocol/survey.py), telling brokers what was changed (telling.py).
"""

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.catalog.notices import ChangeRecorder
from kafscale.log.formats import places
from kafscale.log.protocol import survey
from kafscale.log.protocol.survey import LogSnapshot
from kafscale.model.buffers import Buffer
from kafscale.model.errors import UnknownTopic
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.settings import locations
from kafscale.spark.telling import Teller
from kafscale.system import SystemClock, SystemDice

_T = TypeVar("_T")
_P = ParamSpec("_P")


class _Process:
    """What a process keeps for all its buckets: a loop of its own and the open stores.

    Workers are forked, and a loop does not survive that: each process id has its own.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.stores: dict[locations.Location, ChangeRecorder] = {}
        self.teller = Teller(self.stores, SystemClock())
        thread = threading.Thread(target=self.loop.run_forever, name="kafscale-bucket", daemon=True)
        thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, whatever loop the caller may be in."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


_LOCK: Final = threading.Lock()
_process: _Process | None = None


def _this_process() -> _Process:
    global _process
    with _LOCK:
        if _process is None or _process.pid != os.getpid():
            _process = _Process()
        return _process


def on_store(
    where: locations.Location,
    work: Callable[Concatenate[ObjectStore, _P], Awaitable[_T]],
    *args: _P.args,
    **named: _P.kwargs,
) -> _T:
    """Do something with a store, opened once per process, and wait for it."""
    process = _this_process()

    async def on_loop() -> _T:
        store = process.stores.get(where)
        if store is None:
            store = process.stores[where] = ChangeRecorder(locations.open_location(where))
        try:
            return await work(store, *args, **named)
        finally:
            await process.teller.tell_soon(where)

    return process.run(on_loop())


class Bucket:
    """One namespace of one store."""

    def __init__(self, url: str, namespace: str = "") -> None:
        """Refuse a URL that names no store; nothing is read yet."""
        self.url = url
        where = locations.locate(url)
        self.where = where._replace(namespace=namespace) if namespace else where
        self.namespace = self.where.namespace
        self.clock = SystemClock()
        self.dice = SystemDice()

    def __reduce__(self) -> tuple[type["Bucket"], tuple[str, str]]:
        """Pickle the URL alone: each process opens the store itself."""
        return Bucket, (self.url, self.namespace)

    def run(
        self,
        work: Callable[Concatenate[ObjectStore, _P], Awaitable[_T]],
        *args: _P.args,
        **named: _P.kwargs,
    ) -> _T:
        """Call `work` with the store and these arguments, and wait for its result."""
        return on_store(self.where, work, *args, **named)

    def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for work on objects that `run` made: they belong to the bucket's event loop."""
        process = _this_process()
        try:
            return process.run(work)
        finally:
            process.run(process.teller.tell_soon(self.where))

    def tell(self) -> None:
        """Tell brokers now what was changed: the job ends, and perhaps this process."""
        process = _this_process()
        process.run(process.teller.tell(self.where))

    # -- topics ------------------------------------------------------------------------------

    def topics(self) -> list[TopicDescriptor]:
        """Every topic there is, by name."""
        return self.run(lambda store: Descriptors(store, self.namespace).all())

    def topic(self, name: str) -> TopicDescriptor:
        """One topic, or UnknownTopic."""
        _, descriptor = self.run(lambda store: Descriptors(store, self.namespace).newest(name))
        if descriptor is None or descriptor.deleted:
            raise UnknownTopic(f"there is no topic {name!r} in {self.url}")
        return descriptor

    def select(self, names: Iterable[str] = (), pattern: str = "") -> list[TopicDescriptor]:
        """The named topics, those a pattern matches as a whole, or all of them."""
        named = list(dict.fromkeys(names))
        if named:
            return [self.topic(name) for name in named]
        return [
            topic for topic in self.topics() if not pattern or re.fullmatch(pattern, topic.name)
        ]

    # -- logs --------------------------------------------------------------------------------

    def snapshots(self, topic: TopicDescriptor) -> list[LogSnapshot]:
        """Every log that has a partition of a topic as it is now, in order of log number."""
        return list(self.read_logs(places.log_folders(topic)).values())

    def read_logs(self, folders: Iterable[str]) -> dict[str, LogSnapshot]:
        """These logs as they are now, each read once."""
        wanted = list(dict.fromkeys(folders))

        async def look(store: ObjectStore) -> list[LogSnapshot]:
            return await survey.await_limited(
                survey.take_snapshot(store, folder) for folder in wanted
            )

        return dict(zip(wanted, self.run(look), strict=True))

    # -- objects -----------------------------------------------------------------------------

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Read a range of an object."""
        return self.run(lambda store: store.read(key, start, length))

    def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Create an object, or raise ObjectExists."""
        self.run(lambda store: store.put_new(key, body))

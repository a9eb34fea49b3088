"""The bucket as the console reads it: counted, and remembered for half a minute.

Here: descriptors of topics, surveys of logs, what this console itself asked for. Next door: what
is in a log (log/protocol/survey.py), single objects (admin/bucket/object_view.py).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.log.formats import places
from kafscale.model.clock import Clock
from kafscale.model.errors import InvalidTopicName
from kafscale.model.names import check_topic_name
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.instrumented import InstrumentedStore
from kafscale.objects.store import ObjectStore

if TYPE_CHECKING:  # imported when a page asks: codecs of records take 5 MB
    from kafscale.log.catalog.descriptors import Descriptors
    from kafscale.log.protocol.survey import LogSurvey

T = TypeVar("T")
KEPT_S: Final = 30.0
_MOST_KEPT: Final = 64


class Remembered:
    """Answers that took a while, kept for a while; who asks meanwhile waits for the same answer."""

    def __init__(self, clock: Clock, kept_s: float = KEPT_S) -> None:
        self._clock = clock
        self._kept_s = kept_s
        self._answers: dict[object, tuple[float, asyncio.Future[Any]]] = {}

    async def get(self, key: object, ask: Callable[[], Awaitable[T]]) -> T:
        """Give the answer of the last half minute, or a new one."""
        now_s = self._clock.elapsed_s()
        found = self._answers.get(key)
        if found is not None and (not found[1].done() or now_s - found[0] < self._kept_s):
            kept: T = await asyncio.shield(found[1])
            return kept
        while len(self._answers) >= _MOST_KEPT:
            del self._answers[next(iter(self._answers))]
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[key] = now_s, answer
        try:
            value = await ask()
        except BaseException as bad:
            self._answers.pop(key, None)
            if isinstance(bad, Exception):
                answer.set_exception(bad)
                answer.exception()  # there may be none who waits for it
            else:
                answer.cancel()
            raise
        answer.set_result(value)
        return value

    def forget(self) -> None:
        """Forget all answers, after a change."""
        self._answers = {key: found for key, found in self._answers.items() if not found[1].done()}


class ConsoleBucket:
    """The objects of one namespace."""

    def __init__(self, store: ObjectStore, namespace: str, place: str, clock: Clock) -> None:
        """`place`: the bucket's name for people."""
        self.namespace = namespace
        self.place = place
        self.requests: dict[str, int] = {}
        self.read_bytes = 0
        self.store: ObjectStore = InstrumentedStore(store, self._observe, self._count, clock)
        self.remembered = Remembered(clock)

    def _observe(self, _operation: str, _key: str, _seconds: float, size: int, _ok: bool) -> None:
        self.read_bytes += size

    def _count(self, kind: str, _key: str, count: int) -> None:
        self.requests[kind] = self.requests.get(kind, 0) + count

    async def topics(self) -> dict[str, TopicDescriptor]:
        """The descriptors of all topics."""

        async def read() -> dict[str, TopicDescriptor]:
            found = await self._descriptors().all()
            return {topic.name: topic for topic in found}

        return await self.remembered.get("topics", read)

    async def topic(self, name: str) -> TopicDescriptor:
        """The descriptor of one topic; refused if the bucket has none."""
        try:
            check_topic_name(name)
        except InvalidTopicName as bad:
            raise ApiRefusal("unknown_topic", str(bad)) from bad

        async def read() -> TopicDescriptor | None:
            return (await self._descriptors().newest(name))[1]

        found = await self.remembered.get(("topic", name), read)
        if found is None or found.deleted:
            raise ApiRefusal("unknown_topic", f"the bucket has no topic {name}")
        return found

    def _descriptors(self) -> "Descriptors":
        from kafscale.log.catalog.descriptors import Descriptors

        return Descriptors(self.store, self.namespace)

    async def survey(self, folder: str) -> "LogSurvey":
        """One log with everything that lies in its folder."""
        from kafscale.log.protocol import survey

        return await self.remembered.get(
            ("survey", folder),
            lambda: survey.survey_log(self.store, folder, places.number_of(folder)),
        )

"""The watcher: asks the brokers and reads their pages again and again, and keeps what it found.

Here: one loop, at most a hundredth of a core. Pages of the console are made of what it found last,
so that a hundred open tabs ask brokers no more than one. Next door: figures of one page
(reading.py), rates (rates.py), history (history.py), lag in seconds (ends.py).
"""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field
from typing import Final

import structlog

from kafscale.admin.brokers.broker_facts import BrokerSelf, ask_brokers
from kafscale.admin.brokers.cluster_view import FleetView, view_cluster
from kafscale.admin.brokers.members import why_not_ready
from kafscale.admin.brokers.page_trust import trust_of_client
from kafscale.admin.cost import metrics_page
from kafscale.admin.errors import AdminError
from kafscale.admin.groups import groups
from kafscale.admin.groups.groups import ListedGroup, list_group_states
from kafscale.console.cluster import Cluster
from kafscale.console.watch import reading as page
from kafscale.console.watch.ends import MOST_PARTITIONS, EndHistory
from kafscale.console.watch.history import STEP_S, SeriesHistory
from kafscale.console.watch.notes import note_readings
from kafscale.console.watch.rates import CounterRates, RateWindow, add_up
from kafscale.console.watch.reading import BrokerReading
from kafscale.model.clock import Clock
from kafscale.tasks import Tasks

logger = structlog.get_logger()

_SHARE: Final = 0.008  # of a core
_ASK_EVERY_S: Final = 30.0  # what changes rarely, while no page is open
_ASK_WHILE_USED_S: Final = 5.0
_IN_USE_S: Final = 30.0  # after the last request of a page
_COST_EVERY_S: Final = 300.0
_COST_KEPT: Final = 13  # an hour
_EMPTY: Final = FleetView(None, None, [], {})


@dataclass(slots=True)
class WatchedBroker:
    """What is known of one broker."""

    said: BrokerSelf
    reading: BrokerReading | None = None  # None: its page could not be read
    why: str = ""  # why not
    reasons: list[str] | None = None  # why it is not ready; None: not known
    window: RateWindow = field(default_factory=RateWindow)
    hourly: list[BrokerReading] = field(default_factory=list)  # one every five minutes


class ClusterWatcher:
    """What was found last."""

    def __init__(self, cluster: Cluster, clock: Clock, pages: list[str]) -> None:
        """`pages`: metrics pages; none: those that the brokers name."""
        self._cluster = cluster
        self._clock = clock
        self._pages = pages
        self._used_s = -_IN_USE_S
        self._asked_s = -_ASK_EVERY_S
        self._tasks = Tasks()
        self._wake = asyncio.Event()
        self.view = _EMPTY
        self.groups: list[ListedGroup] | None = None
        self.groups_why = "brokers were not asked yet"
        self.brokers: dict[int, WatchedBroker] = {}
        self.rates: CounterRates = {}
        self.history = SeriesHistory()
        self.ends = EndHistory()
        self.as_of_ms = 0
        self.why = "brokers were not asked yet"  # why there is no view; empty: there is
        self.first = asyncio.Event()  # set after the first look

    # -- for pages -------------------------------------------------------------------------------

    async def use(self) -> None:
        """Say that a page is looked at; waits for the first look, and not longer than that."""
        now_s = self._clock.elapsed_s()
        if now_s - self._used_s > _IN_USE_S:
            self._wake.set()
        self._used_s = now_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await self.first.wait()

    async def look_now(self) -> None:
        """Look again at once, after a change."""
        await self._ask_brokers()

    @property
    def readings(self) -> list[BrokerReading]:
        """The pages that could be read."""
        return [state.reading for state in self.brokers.values() if state.reading is not None]

    def unread(self) -> str:
        """Say which brokers' pages are missing; empty if none is."""
        missing = [f"broker {number}: {state.why}" for number, state in self.brokers.items()
                   if state.reading is None]  # fmt: skip
        return "; ".join(missing[:3])

    # -- the loop --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                await self._look_and_wait()
        finally:
            await self._tasks.aclose()

    async def _look_and_wait(self) -> None:
        began_s = self._clock.elapsed_s()
        spent_s = await self._look()
        self.first.set()
        pause_s = max(STEP_S - (self._clock.elapsed_s() - began_s), spent_s / _SHARE, 0.5)
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._wake.wait()

    async def _look(self) -> float:
        """Look once; gives the CPU-seconds that parsing took."""
        try:
            now_s = self._clock.elapsed_s()
            is_used = now_s - self._used_s < _IN_USE_S
            every_s = _ASK_WHILE_USED_S if is_used else _ASK_EVERY_S
            if now_s - self._asked_s >= every_s - 0.5 or self.why:
                await self._ask_brokers()
            spent_s = await self._read_pages()
        except Exception:
            logger.exception("console_watch_failed")
            return 0.1
        if not len(self._tasks):  # brokers that are silent may hold up the last one for long
            self._tasks.spawn(self._ask_ends(), "ends")
        return spent_s

    async def _ask_brokers(self) -> None:
        self._asked_s = self._clock.elapsed_s()
        try:
            view = await self._cluster.ask(view_cluster)
            said = await self._cluster.ask(ask_brokers, view.nodes)
        except AdminError as bad:
            self.why = str(bad)
            return
        if view != self.view:  # an equal one would lie between objects of the look that is over
            self.view = view
        self.why = ""
        self.brokers = {
            number: self.brokers.get(number) or WatchedBroker(facts)
            for number, facts in said.items()
        }
        for number, facts in said.items():
            if not facts.why or not self.brokers[number].said.page:
                self.brokers[number].said = facts
        try:
            self.groups, self.groups_why = await self._cluster.ask(list_group_states), ""
        except AdminError as bad:
            self.groups_why = str(bad)

    async def _read_pages(self) -> float:
        jobs = []
        for at, (number, state) in enumerate(self.brokers.items()):
            url = self._pages[at] if at < len(self._pages) else state.said.page
            if not url:
                state.reading, state.why = None, "it does not say where its metrics page is"
                continue
            jobs.append(self._read_page(state, url.removesuffix("/metrics"), number))
        spent_s = sum(await asyncio.gather(*jobs))
        self.rates = add_up(state.window.rates() for state in self.brokers.values())
        self.as_of_ms = self._clock.now_ms()
        note_readings(self)
        return spent_s

    async def _read_page(self, state: WatchedBroker, url: str, number: int) -> float:
        try:
            trust = self._trust(url)
            text = await self._cluster.run(lambda: metrics_page.fetch(url, trust))
            state.reasons = await self._cluster.run(lambda: why_not_ready(url, trust))
        except AdminError as bad:
            state.reading, state.why, state.reasons = None, str(bad), None
            return 0.0
        began_s = self._clock.elapsed_s()
        now_s = self._clock.now_ms() / 1000
        samples = metrics_page.parse_samples(text, page.NAMES)
        found = page.read_page(samples, now_s)
        spent_s = self._clock.elapsed_s() - began_s
        state.reading, state.why = found, ""
        state.window.add(found)
        if not state.hourly or now_s - state.hourly[-1].at_s >= _COST_EVERY_S:
            state.hourly = [*state.hourly[-_COST_KEPT + 1 :], found]
        return spent_s

    def _trust(self, url: str) -> ssl.SSLContext | None:
        return trust_of_client(self._cluster.settings, [url])

    async def _ask_ends(self) -> None:
        """Ask where the partitions end that groups read: for lag in seconds."""
        wanted = {(topic, partition) for one in self.readings for _, topic, partition in one.lag}
        self.ends.forget_others(wanted)
        if not wanted:
            return
        chosen = sorted(wanted)[:MOST_PARTITIONS]
        try:
            found = await self._cluster.ask(groups.list_ends, chosen)
        except AdminError as bad:
            logger.debug("console_ends_unknown", reason=str(bad))
            return
        now_s = self._clock.now_ms() / 1000
        for (topic, partition), end in found.items():
            self.ends.put(now_s, topic, partition, end)

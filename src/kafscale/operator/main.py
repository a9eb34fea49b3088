"""The operator process: election, informers, workers, its page, signals.

Here: wiring. Next door: the loops (loops/).
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp
import structlog
from aiohttp import web
from msgspec import Struct

from kafscale.admin.errors import AdminError
from kafscale.model.clock import Clock, Dice
from kafscale.operator.brokers.clients import BrokerClients
from kafscale.operator.kube.access import Access, find_access
from kafscale.operator.kube.client import Kube, Object
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.informer import Informer, Key
from kafscale.operator.kube.lease import Election, LeaseLost
from kafscale.operator.kube.work_queue import KeyQueue
from kafscale.operator.loops.clusters import ClusterLoop
from kafscale.operator.loops.events import Events
from kafscale.operator.loops.observation import PARTS, Observation
from kafscale.operator.loops.topics import TopicLoop
from kafscale.operator.loops.users import UserLoop
from kafscale.operator.metrics import OperatorMetrics
from kafscale.operator.page import alive, as_metrics, open_page
from kafscale.operator.parts.common import Defaults
from kafscale.operator.passwords import Passwords
from kafscale.system import SystemClock, SystemDice
from kafscale.tasks import Tasks

logger = structlog.get_logger()

OURS: Final = "app.kubernetes.io/managed-by=kafscale-operator"
_WORKERS: Final = 4
_LOOK_WITHIN_S: Final = 120.0  # one look; a worker that needs longer is stuck


class OperatorSettings(Struct, frozen=True, kw_only=True):
    """What the process is told by flags and variables."""

    defaults: Defaults
    namespace: str = ""  # of the Lease; empty: that of the account
    watch_namespace: str = ""  # empty: all namespaces
    kubeconfig: str | None = None
    identity: str = ""
    host: str = "0.0.0.0"
    port: int = 8080


class _Workers:
    """Workers of one queue."""

    def __init__(
        self,
        kind: str,
        queue: KeyQueue[Key],
        look: Callable[[Key], Awaitable[float | None]],
        metrics: OperatorMetrics,
        clock: Clock,
    ) -> None:
        self._kind = kind
        self._queue = queue
        self._look = look
        self._metrics = metrics
        self._clock = clock
        self._began: dict[Key, float] = {}

    def is_stuck(self) -> bool:
        """Whether a look takes longer than it may."""
        now_s = self._clock.elapsed_s()
        return any(now_s - began_s > 2 * _LOOK_WITHIN_S for began_s in self._began.values())

    async def work(self) -> None:
        """Take keys and look at them until cancelled."""
        while True:
            key = await self._queue.take()
            began_s = self._began[key] = self._clock.elapsed_s()
            try:
                async with asyncio.timeout(_LOOK_WITHIN_S):
                    again_s = await self._look(key)
            except Exception as problem:
                pause_s = self._queue.failed(key)
                self._metrics.reconcile_errors.labels(self._kind).inc()
                is_ours = not isinstance(problem, KubeError | AdminError | TimeoutError)
                logger.warning(
                    "look_failed",
                    kind=self._kind,
                    key="/".join(key),
                    error=str(problem) or repr(problem),
                    pause_s=round(pause_s, 1),
                    exc_info=problem if is_ours else None,
                )
            else:
                self._queue.done(key, again_s)
            finally:
                del self._began[key]
                took_s = self._clock.elapsed_s() - began_s
                self._metrics.reconcile_seconds.labels(self._kind).observe(took_s)


class Operator:
    """All parts of an operator, on one client of the API server."""

    def __init__(
        self,
        kube: Kube,
        http: aiohttp.ClientSession,
        settings: OperatorSettings,
        clock: Clock,
        dice: Dice,
        metrics: OperatorMetrics,
        is_leader: Callable[[], bool],
    ) -> None:
        self._clusters: KeyQueue[Key] = KeyQueue(dice)
        self._topics: KeyQueue[Key] = KeyQueue(dice)
        self._users: KeyQueue[Key] = KeyQueue(dice)
        scope = settings.watch_namespace

        def informer(kind: str, changed: Callable[[Object], None], selector: str = "") -> Informer:
            return Informer(
                kube,
                kind,
                dice,
                changed,
                namespace="" if kind == "Node" else scope,
                selector=selector,
                restarted=lambda kind: metrics.watch_restarts.labels(kind).inc(),
            )

        self.informers: dict[str, Informer] = {
            "KafscaleCluster": informer("KafscaleCluster", self._cluster_changed),
            "KafscaleTopic": informer("KafscaleTopic", self._topic_changed),
            "KafscaleUser": informer("KafscaleUser", self._user_changed),
            "Node": informer("Node", lambda node: None),
            **{kind: informer(kind, self._part_changed, OURS) for kind in PARTS},
        }
        observation = Observation(self.informers)
        events = Events(kube, clock, dice, settings.identity)
        passwords = Passwords(kube, settings.namespace or kube.access.namespace, dice)
        clients = BrokerClients(passwords)
        counts: dict[Key, int] = {}
        clusters = ClusterLoop(
            kube,
            http,
            observation,
            settings.defaults,
            clock,
            events,
            metrics,
            passwords,
            clients,
            counts,
        )
        topics = TopicLoop(
            kube, self.informers["KafscaleTopic"], observation, clock, events, clients, counts
        )
        users = UserLoop(
            kube, self.informers["KafscaleUser"], observation, clock, events, passwords, clients
        )
        self._workers = (
            _Workers("KafscaleCluster", self._clusters, clusters.look, metrics, clock),
            _Workers("KafscaleTopic", self._topics, topics.look, metrics, clock),
            _Workers("KafscaleUser", self._users, users.look, metrics, clock),
        )
        metrics.sample(
            clusters=lambda: len(self.informers["KafscaleCluster"]),
            topics=lambda: len(self.informers["KafscaleTopic"]),
            queue_depth=lambda: sum(map(len, (self._clusters, self._topics, self._users))),
            is_leader=is_leader,
        )

    def is_alive(self) -> bool:
        """Whether the workers get on with their work."""
        return not any(workers.is_stuck() for workers in self._workers)

    async def run(self, tasks: Tasks) -> None:
        """Follow the server, and work once everything was seen."""
        for informer in self.informers.values():
            tasks.spawn(informer.run(), f"informer {informer.kind}")
        for informer in self.informers.values():
            await informer.synced.wait()
        logger.info("synced", clusters=len(self.informers["KafscaleCluster"]))
        for workers in self._workers:
            for _ in range(_WORKERS):
                tasks.spawn(workers.work(), "worker")

    def close(self) -> None:
        """Forget appointments."""
        for queue in (self._clusters, self._topics, self._users):
            queue.close()

    def _cluster_changed(self, found: Object) -> None:
        key = found["metadata"]["namespace"], found["metadata"]["name"]
        self._clusters.add(key)
        self._topics.add_later(key, 1.0)  # topics wait for a cluster, or must be let go
        self._users.add_later(key, 1.0)

    def _topic_changed(self, found: Object) -> None:
        key = found["metadata"]["namespace"], found["spec"]["clusterRef"]
        # Many are often applied together: they are looked at together.
        self._topics.add_later(key, 0.5)

    def _user_changed(self, found: Object) -> None:
        self._users.add_later((found["metadata"]["namespace"], found["spec"]["clusterRef"]), 0.5)

    def _part_changed(self, found: Object) -> None:
        cluster = found["metadata"].get("labels", {}).get("cluster")
        if cluster:
            self._clusters.add((found["metadata"]["namespace"], cluster))


async def serve(settings: OperatorSettings, env: Mapping[str, str]) -> int:
    """Run an operator until SIGTERM; gives the exit code."""
    clock, dice = SystemClock(), SystemDice()
    access = find_access(settings.kubeconfig, env, clock)
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)
    async with contextlib.AsyncExitStack() as undo:
        return await _serve(settings, access, clock, dice, leaving, undo)


async def _serve(
    settings: OperatorSettings,
    access: Access,
    clock: Clock,
    dice: Dice,
    leaving: asyncio.Event,
    undo: contextlib.AsyncExitStack,
) -> int:
    metrics = OperatorMetrics()
    kube = await undo.enter_async_context(
        Kube(access, lambda verb, kind: metrics.requests.labels(verb, kind).inc())
    )
    http = await undo.enter_async_context(aiohttp.ClientSession())
    operator = Operator(kube, http, settings, clock, dice, metrics, lambda: election.is_leader)
    undo.callback(operator.close)
    election = Election(
        kube,
        clock,
        settings.namespace or access.namespace,
        settings.identity or f"{socket.gethostname()}_{os.getpid()}",
        is_alive=operator.is_alive,
    )

    async def ready() -> web.Response:
        return web.json_response({"ready": True, "leader": election.is_leader})

    async def shown() -> web.Response:
        return as_metrics(metrics.registry.render())

    pages = {"/health": alive, "/ready": ready, "/metrics": shown}
    runner = await open_page(settings.host, settings.port, pages)
    undo.push_async_callback(runner.cleanup)
    tasks = Tasks()
    undo.push_async_callback(tasks.aclose)
    undo.push_async_callback(election.release)
    work = tasks.spawn(_lead(election, operator, tasks), "leading", awaited=True)
    asked = tasks.spawn(leaving.wait(), "signal", awaited=True)
    await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        logger.info("operator_stops")
        return 0
    try:
        work.result()
    except LeaseLost as lost:
        logger.warning("leadership_lost", reason=str(lost))
    return 1


async def _lead(election: Election, operator: Operator, tasks: Tasks) -> None:
    """Win the election, then work for as long as the Lease can be held."""
    await election.win()
    tasks.spawn(operator.run(tasks), "operator")
    await election.hold()

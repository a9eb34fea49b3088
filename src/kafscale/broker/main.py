"""The broker process: start, wait for a signal, leave cleanly.

Here: signals, the stores, the page for operators. Next door: the order in which a broker starts and
ends (lifecycle.py), its parts (wiring.py).
"""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import structlog
import uvloop

from kafscale.broker.doors.door_security import make_tls
from kafscale.broker.lifecycle import Lifecycle
from kafscale.broker.operating import banner, file_limit, log_output
from kafscale.broker.operating.audit_file import AuditFile
from kafscale.broker.operating.turn_watch import TurnWatch
from kafscale.broker.starting_page import StartingPage
from kafscale.broker.wiring import build
from kafscale.gateways.audit_log import Fields
from kafscale.gateways.ops_http import OpsServer
from kafscale.model.errors import KafscaleError
from kafscale.objects.capability_check import check_create_if_absent
from kafscale.settings.config import Config
from kafscale.settings.security import metrics_tls
from kafscale.settings.stores import open_metadata, open_store
from kafscale.system import SystemClock, SystemDice
from kafscale.tasks import Tasks

logger = structlog.get_logger()

_LAST_TRIES_S: Final = 1.0  # for the clean-up of a start that is given up


class Beside(Protocol):
    """A process that runs beside the broker, once that is ready."""

    note: str  # what to tell the person who starts the broker

    def running(self, bootstrap: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Keep it alive while the block runs; clients connect to `bootstrap`."""
        ...


class StartFailed(Exception):
    """The broker cannot run; the message is the one line a person needs."""


def run(config: Config, console: Beside | None = None) -> int:
    """Serve until SIGINT or SIGTERM; gives the exit code."""
    log_output.configure(config.logging.level, config.logging.format)
    for setting in config.without_effect:
        logger.warning("setting_without_effect", setting=setting)
    try:
        uvloop.run(_serve(file_limit.within(config), console))
    except (StartFailed, KafscaleError) as problem:
        print(f"kafscale: {problem}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return 1
    return 0


async def _serve(config: Config, console: Beside | None) -> None:
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)
    async with contextlib.AsyncExitStack() as undo:
        life = await _unless(leaving, _start(config, undo, console))
        if life is None:
            logger.info("start_given_up")
            return
        logger.info("broker_started", broker_id=life.broker.engine.identity.broker_id)
        await life.wait(leaving)
        logger.info("broker_stopping")
        await life.leave()
    logger.info("broker_stopped")


async def _unless(
    leaving: asyncio.Event, start: Coroutine[Any, Any, Lifecycle]
) -> Lifecycle | None:
    """Wait for the start; None if a signal comes first: a store that hangs does not hold it up."""
    tasks = Tasks()
    starting = tasks.spawn(start, "start", awaited=True)
    asked = tasks.spawn(leaving.wait(), "signal", awaited=True)
    await tasks.wait_for_one()
    asked.cancel()
    if starting.done():
        return starting.result()
    while not starting.done():  # it may want to clean up, in the very store that hangs
        starting.cancel()
        await asyncio.wait((starting,), timeout=_LAST_TRIES_S)
    return None


async def _start(
    config: Config, undo: contextlib.AsyncExitStack, console: Beside | None
) -> Lifecycle:
    """Start a broker; what it takes to end it is left in `undo`, last step first."""
    if config.logging.long_turns:
        watch = TurnWatch(config.logging.long_turns)
        watch.start()
        undo.callback(watch.stop)
    page = StartingPage()
    await _open_page(config, page, undo)  # it ends last: it answers while the broker drains
    clock, dice = SystemClock(), SystemDice()
    metadata = open_metadata(config, clock)
    undo.push_async_callback(metadata.aclose)
    store = open_store(config)
    undo.push_async_callback(store.aclose)
    await check_create_if_absent(store, f"{config.storage.namespace}/.probe", dice.token(8).hex())
    audit_line = _open_audit(config, undo)
    broker = await build(config, store, metadata, clock, dice, audit_line=audit_line)
    life = Lifecycle(broker, config.broker.rack)
    undo.push_async_callback(life.aclose)
    endpoints = await life.start()
    notes = dict(life.broker.doors.notes)
    if console is not None:
        notes["console"] = console.note
    banner.show(config, endpoints, notes)
    page.show(broker)
    if console is not None:
        bootstrap = str(next(iter(endpoints.values())))
        await undo.enter_async_context(console.running(bootstrap))
    _calm_collector()
    return life


def _open_audit(config: Config, undo: contextlib.AsyncExitStack) -> Callable[[Fields], None] | None:
    """The file of the audit log, if it has one of its own."""
    audit = config.audit
    if audit.file is None:
        return None
    try:
        file = AuditFile(audit.file, audit.max_file_size, audit.max_files)
    except OSError as problem:
        reason = problem.strerror or problem
        raise StartFailed(f"cannot write the audit log to {audit.file}: {reason}") from None
    undo.callback(file.close)
    return file.write


def _calm_collector() -> None:
    """Collect garbage rarely, and never among the objects that exist now: they stay.

    The middle generation gathers 100,000 objects: one pass over them takes 25 ms of the loop, and
    over 400,000 it took 90. The oldest is looked at as rarely as before.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 200)


async def _open_page(config: Config, page: StartingPage, undo: contextlib.AsyncExitStack) -> None:
    """Serve health and metrics from now on, before the broker is ready."""
    server = OpsServer(page.metrics, page.checks)
    host, port = config.broker.host, config.broker.metrics_port
    try:
        await server.start(host, port, make_tls("metrics", metrics_tls(config.tls)))
    except OSError as problem:
        raise StartFailed(
            f"cannot listen on {host}:{port} for metrics: {problem.strerror or problem}"
        ) from None
    undo.push_async_callback(server.stop)

"""The broker process: start, wait for a signal, leave cleanly.

Here: the order of things. The listeners open only when everything behind them is ready; on
leaving they close first, then everything that waits is committed.
"""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Final

import structlog
import uvloop

from kafscale.broker import banner, log_output
from kafscale.broker.wiring import Broker, build
from kafscale.engine.cluster.membership import Node
from kafscale.model.errors import KafscaleError
from kafscale.objects.capability_check import check_create_if_absent
from kafscale.settings.config import Config
from kafscale.settings.stores import open_metadata, open_store
from kafscale.system import SystemClock, SystemDice

logger = structlog.get_logger()

_FLUSH_DEADLINE_S: Final = 20.0
_LAST_TRIES_S: Final = 1.0  # of a start that is given up


class StartFailed(Exception):
    """The broker cannot run; the message is the one line a person needs."""


def run(config: Config) -> int:
    """Serve until SIGINT or SIGTERM; gives the exit code."""
    log_output.configure(config.logging.level, config.logging.format)
    for setting in config.without_effect:
        logger.warning("setting_without_effect", setting=setting)
    try:
        uvloop.run(_serve(config))
    except (StartFailed, KafscaleError) as problem:
        print(f"kafscale: {problem}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return 1
    return 0


async def _serve(config: Config) -> None:
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)
    async with contextlib.AsyncExitStack() as undo:
        broker = await _unless(leaving, _start(config, undo))
        if broker is None:
            logger.info("start_given_up")
            return
        logger.info("broker_started", broker_id=broker.engine.identity.broker_id)
        await _until(leaving, broker)
        logger.info("broker_stopping")
        await broker.engine.cluster.leave()
        broker.doors.close()
        broker.doors.stop_reading()
    logger.info("broker_stopped")


async def _unless(leaving: asyncio.Event, work: Coroutine[Any, Any, Broker]) -> Broker | None:
    """What becomes of `work`; None if a signal came first: a store that hangs keeps nobody here."""
    working = asyncio.ensure_future(work)
    asked = asyncio.ensure_future(leaving.wait())
    await asyncio.wait((working, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if working.done():
        return working.result()
    while not working.done():  # it may want to clean up, in the very store that hangs
        working.cancel()
        await asyncio.wait((working,), timeout=_LAST_TRIES_S)
    if not working.cancelled():
        working.exception()  # of no interest any more
    return None


async def _start(config: Config, undo: contextlib.AsyncExitStack) -> Broker:
    """A broker that serves; what it takes to end it is left in `undo`."""
    clock, dice = SystemClock(), SystemDice()
    metadata = open_metadata(config, clock)
    undo.push_async_callback(metadata.aclose)
    store = open_store(config)
    undo.push_async_callback(store.aclose)
    await check_create_if_absent(store, f"{config.storage.namespace}/.probe", dice.token(8).hex())
    broker = await build(config, store, metadata, clock, dice)
    # In reverse: what waits is committed while its producers are still there to be told.
    undo.push_async_callback(broker.doors.aclose)
    undo.push_async_callback(broker.engine.aclose, _FLUSH_DEADLINE_S)
    await broker.engine.start()
    await _open_doors(config, broker)
    stop_metrics = await _start_metrics(config, broker)
    undo.push_async_callback(stop_metrics)
    _calm_collector()
    return broker


async def _until(leaving: asyncio.Event, broker: Broker) -> None:
    """Wait for a signal, or for a reason why this broker must not go on."""
    asked = asyncio.ensure_future(leaving.wait())
    failed = asyncio.ensure_future(broker.engine.cluster.failure())
    await asyncio.wait((asked, failed), return_when=asyncio.FIRST_COMPLETED)
    reason = failed.result() if failed.done() else ""
    asked.cancel()
    failed.cancel()
    if reason:
        raise StartFailed(reason)


def _calm_collector() -> None:
    """Look for garbage cycles rarely, and never again at what exists now: it is here to stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _open_doors(config: Config, broker: Broker) -> None:
    endpoints = await broker.doors.open()
    node = Node(broker.engine.identity.broker_id, endpoints, config.broker.rack)
    await broker.engine.cluster.join(node)
    banner.show(config, endpoints)


async def _start_metrics(config: Config, broker: Broker):  # type: ignore[no-untyped-def]
    """Health and metrics come after the door: loading their library takes a moment."""
    from kafscale.broker.ops_http import OpsServer

    server = OpsServer(broker.probe.registry.render, broker.readiness.ask)
    host, port = config.broker.host, config.broker.metrics_port
    try:
        await server.start(host, port)
    except OSError as problem:
        raise StartFailed(
            f"cannot listen on {host}:{port} for metrics: {problem.strerror or problem}"
        ) from None
    return server.stop

"""The console beside a broker: started once the broker is ready, watched, stopped with it.

Here: one child process of this one, started again with growing pauses. It gets the console's
credentials by its environment, and no other process does. Next door: the fleet's processes
(child.py), the pauses (child.delay_s).
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Final

import structlog

from kafscale.local.child import delay_s, dying_with
from kafscale.model.clock import Clock
from kafscale.settings.sections import ConsoleSection
from kafscale.tasks import Tasks

logger = structlog.get_logger()

USUAL_PORT: Final = 8080
UI_VARIABLES: Final = ("KAFSCALE_UI_USERNAME", "KAFSCALE_UI_PASSWORD")
_LONG_ENOUGH_S: Final = 10.0
_STOP_WITHIN_S: Final = 3.0


class Companion:
    """A console that runs as long as this process does."""

    def __init__(self, console: ConsoleSection, given: Mapping[str, str], clock: Clock) -> None:
        """`given`: settings by their keys, as `serve` was given them."""
        self._console = console
        self._given = given
        self._clock = clock
        self._secrets = {name: os.environ.pop(name, "") for name in UI_VARIABLES}
        self._port, self.note = address(console, self._secrets)

    @contextlib.asynccontextmanager
    async def running(self, bootstrap: str) -> AsyncIterator[None]:
        """Keep the console alive while the block runs."""
        tasks = Tasks()
        if self._port is not None:
            tasks.spawn(self._keep_alive(bootstrap), "console")
        try:
            yield
        finally:
            await tasks.aclose()

    async def _keep_alive(self, bootstrap: str) -> None:
        quick_deaths = 0
        while True:
            began_s = self._clock.elapsed_s()
            process = await self._start(bootstrap)
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            lived_long = self._clock.elapsed_s() - began_s >= _LONG_ENOUGH_S
            quick_deaths = 0 if lived_long else quick_deaths + 1
            logger.warning("console_ended", status=status)
            await asyncio.sleep(delay_s(max(quick_deaths, 1)))

    async def _start(self, bootstrap: str) -> asyncio.subprocess.Process:
        environment = {**os.environ, **self._secrets}
        environment["KAFSCALE_CONSOLE_GIVEN"] = json.dumps(dict(self._given))
        if not self._console.bootstrap:
            environment["KAFSCALE_BOOTSTRAP"] = bootstrap
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kafscale.cli.main", "console"),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,  # the banner has said where it is
            start_new_session=True,  # Ctrl-C reaches the whole terminal group: the broker is first
            preexec_fn=dying_with(os.getpid()),
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_WITHIN_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for a process that is not the console."""
    return {name: value for name, value in environment.items() if name not in UI_VARIABLES}


def address(console: ConsoleSection, environment: Mapping[str, str]) -> tuple[int | None, str]:
    """The port of a console, None if another program has it, and what to tell people."""
    port = USUAL_PORT if console.port is None else console.port
    if console.port is None and is_taken(console.host, port):
        return None, f"port {port} is taken; KAFSCALE_CONSOLE_PORT chooses another"
    scheme = "https" if console.tls.cert_file else "http"
    shown = f"[{console.host}]" if ":" in console.host else console.host
    is_set = all(environment.get(name, "").strip() for name in UI_VARIABLES)
    off = "" if is_set else f" (disabled: set {' and '.join(UI_VARIABLES)})"
    return port, f"{scheme}://{shown}:{port}{off}"


def is_taken(host: str, port: int) -> bool:
    """Whether another program listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False

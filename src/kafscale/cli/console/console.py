"""`kafscale console`: the web console, a process of its own beside the brokers.

Here: wiring of settings, brokers, bucket and snapshots. Next door: the server (console/app.py).
"""

import argparse
import asyncio
import contextlib
import ctypes
import os
import signal
from pathlib import Path
from typing import Final

import msgspec

from kafscale import __version__
from kafscale.cli.brokers.client_arguments import (
    DEFAULT_BOOTSTRAP,
    add_client_arguments,
    client_properties,
)
from kafscale.cli.console.commands import CommandChildren
from kafscale.cli.console.schemas import RegistrySchemas
from kafscale.cli.console.snapshots import StoredSnapshots
from kafscale.cli.terminal.config_arguments import add_set_argument, set_by
from kafscale.cli.terminal.errors import CommandError
from kafscale.console.bucket import ConsoleBucket
from kafscale.console.call import Services
from kafscale.console.entry.doorway import Doorway
from kafscale.console.entry.gate import LoginCredentials, take_credentials
from kafscale.console.entry.static_files import StaticFiles
from kafscale.console.entry.wall import Wall, read_networks
from kafscale.console.records.schemas import Schemas
from kafscale.console.server import ConsoleServer, PortTaken, open_services
from kafscale.settings.config import Config
from kafscale.settings.loading import load
from kafscale.settings.stores import open_store
from kafscale.system import SystemClock, SystemDice

GIVEN: Final = "KAFSCALE_CONSOLE_GIVEN"  # the flags of the `serve` that starts the console
USUAL_PORT: Final = 8080
# Of glibc's malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX.
_MALLOC: Final = {-1: 65_536, -3: 65_536, -8: 2}
_TRIM_EVERY_S: Final = 30.0
_NICE: Final = 5  # on a machine that brokers use as well, they go first


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file with settings")
    parser.add_argument("--host", metavar="HOST", help="address to listen on (console.host)")
    parser.add_argument("--port", metavar="PORT", help="port for browsers (console.port)")
    add_set_argument(parser)
    add_client_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal stops it."""
    dice = SystemDice()
    credentials = take_credentials(os.environ, dice)  # before anything can start a child
    given = msgspec.json.decode(os.environ.pop(GIVEN, "{}"), type=dict[str, str])
    # It opens no listener of brokers: what the image says of theirs is not its matter.
    flags: dict[str, object] = {"broker.host": "127.0.0.1", **given, **set_by(args)}
    if args.host is not None:
        flags["console.host"] = args.host
    if args.port is not None:
        flags["console.port"] = args.port
    config = load(args.config, os.environ, flags)
    os.nice(_NICE)
    _give_memory_back()
    _configure_log(config)
    try:
        # Not uvloop: it would take 5 MB, and the console waits most of the time.
        asyncio.run(_serve(args, config, credentials, dice))
    except PortTaken as taken:
        raise CommandError(str(taken)) from taken
    return 0


def _give_memory_back() -> None:
    """Let the C library return what a look or a search needed for a moment; elsewhere: nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for setting, value in _MALLOC.items():
            mallopt(setting, value)


async def _trim_until(leaving: asyncio.Event) -> None:
    """Return free memory again and again: pieces between others stay, whatever was set."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while not leaving.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TRIM_EVERY_S):
                await leaving.wait()
        if trim is not None:
            trim(0)


def _configure_log(config: Config) -> None:
    from kafscale.broker.operating import log_output

    log_output.configure(config.logging.level, config.logging.format)


async def _serve(
    args: argparse.Namespace, config: Config, credentials: LoginCredentials | None, dice: SystemDice
) -> None:
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leaving.set)
    clock, console = SystemClock(), config.console
    bootstrap = args.bootstrap if _is_named(args) else console.bootstrap or args.bootstrap
    bucket, why = _open_bucket(config, clock)
    services = open_services(
        config,
        bootstrap,
        client_properties(args),
        clock,
        dice,
        __version__,
        bucket,
        why,
    )
    _add_ports(config, services)
    wall = Wall(
        console.host,
        frozenset(console.allowed_hosts),
        read_networks(console.trusted_proxies),
        console.base_path,
        bool(console.tls.cert_file),
    )
    doorway = Doorway(wall, credentials, clock, dice)
    server = ConsoleServer(services, doorway, StaticFiles(build_log=_build_log()))
    port = console.port if console.port is not None else USUAL_PORT
    try:
        bound = await server.start(console.host, port, console.tls.cert_file, console.tls.key_file)
        _say(console.host, bound, bool(console.tls.cert_file), doorway.is_enabled)
        await _trim_until(leaving)
    finally:
        await server.stop()
        if bucket is not None:
            await bucket.store.aclose()


def _is_named(args: argparse.Namespace) -> bool:
    """Whether an address was given, by option or variable."""
    return bool(args.bootstrap != DEFAULT_BOOTSTRAP)


def _say(host: str, port: int, is_encrypted: bool, is_enabled: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if is_encrypted else "http"
    note = "" if is_enabled else " (disabled: set KAFSCALE_UI_USERNAME and KAFSCALE_UI_PASSWORD)"
    print(f"kafscale console {__version__}: {scheme}://{shown}:{port}{note}", flush=True)


def _open_bucket(config: Config, clock: SystemClock) -> tuple[ConsoleBucket | None, str]:
    """The bucket of the brokers' settings, or why it cannot be looked into."""
    if config.store_kind == "memory":
        return None, "objects in a broker's memory cannot be seen from outside"
    if config.store_kind == "files" and not config.objects_dir.exists():
        return None, f"{config.objects_dir}: no such folder; give the brokers' settings (--config)"
    place = config.s3.url if config.store_kind == "s3" else str(config.objects_dir.absolute())
    return ConsoleBucket(open_store(config), config.storage.namespace, place, clock), ""


def _add_ports(config: Config, services: Services) -> None:
    """What other rooms do for the console."""
    if config.console.schema_registry:
        registry = RegistrySchemas(config.console.schema_registry)
        services.schemas = Schemas(registry, services.clock)
    if services.bucket is not None:
        services.snapshots = StoredSnapshots(config)
        services.commands = CommandChildren(config)
        services.has_sql = config.console.sql and config.console.show_values


def _build_log() -> Path | None:
    """What `make console` prints, if this is a checkout."""
    root = Path(__file__).parents[4]
    return root / ".cache" / "console.log" if (root / "ui").is_dir() else None

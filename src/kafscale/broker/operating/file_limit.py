"""How many files the system lets this process open, and who gets them.

Here: clients of the listeners get what is left when the stores, the logs and the page for operators
have theirs. Otherwise a flood of connections would leave none to write a segment with.
Next door: the cap of connections (gateways/connections.py), the cap of pages (gateways/http.py).
"""

import resource
from typing import Final

import structlog
from msgspec.structs import replace

from kafscale.gateways import http
from kafscale.settings.config import Config

logger = structlog.get_logger()

_FOR_THE_PROCESS: Final = 128  # objects that are read and written, metadata, logs, libraries


def within(config: Config) -> Config:
    """The settings with as many connections as the system has files for; asks it for more first."""
    wanted = config.network.max_connections
    kept = _kept_back(config)
    files = _raise_limit(wanted + kept)
    most = connections_within(files, kept)
    if most >= wanted:
        return config
    logger.warning(
        "connections_capped", max_connections=most, configured=wanted, open_files_limit=files
    )
    return replace(config, network=replace(config.network, max_connections=most))


def connections_within(files: int, kept_back: int) -> int:
    """How many connections there may be; where there are very few files, they get one half."""
    return max(files - kept_back, files // 2, 1)


def _kept_back(config: Config) -> int:
    of_the_store = 0
    if config.store_kind == "s3":
        of_the_store = max(config.s3.concurrency, config.s3.idle_connections)
    return _FOR_THE_PROCESS + http.MOST_CONNECTIONS + of_the_store


def _raise_limit(wanted: int) -> int:
    """Raise the soft limit of open files, if that helps; gives what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if target > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (OSError, ValueError):
            return soft  # some systems have a limit that they do not tell
        return target
    return soft

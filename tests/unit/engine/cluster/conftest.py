"""Fleets live in virtual time here: leases end without sleeping."""

import asyncio
from collections.abc import Callable

from tests.support.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}

"""Ports of a fleet: a block of neighbours, chosen once and kept with the fleet's folder.

They lie below the range that the system gives to outgoing connections: in that range, a port could
be taken while its process is started again. The first port of a block is bound by
the supervisor itself, so that two fleets never choose the same block.
"""

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kafscale.local.errors import LocalError
from kafscale.model.clock import Clock, Dice

BLOCK: Final = 100
HOST: Final = "127.0.0.1"
_LINUX_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_FIRST_EPHEMERAL: Final = 32768
_ROOM: Final = 12_000  # how many ports below that are tried
_LOWEST: Final = 10_000
_PATIENCE_S: Final = 5.0  # processes of a supervisor that was just killed may still be ending
_PAUSE_S: Final = 0.1


class PortBlock:
    """A block of ports that no other fleet takes until it is closed."""

    def __init__(self, base: int, claim: socket.socket) -> None:
        self.base = base
        self._claim = claim

    def close(self) -> None:
        """Free the block."""
        self._claim.close()


def choose(offsets: Iterable[int], dice: Dice) -> PortBlock:
    """Find a block whose ports at `offsets` are all free."""
    offsets = tuple(offsets)
    bases = _bases()
    start = int.from_bytes(dice.token(4)) % len(bases)
    for base in (*bases[start:], *bases[:start]):
        if (block := _claimed(base)) is None:
            continue
        if _taken(base, offsets) is None:
            return block
        block.close()
    raise LocalError(f"no {BLOCK} ports in a row are free between {bases[0]} and {bases[-1]}")


def take(base: int, offsets: Iterable[int], clock: Clock) -> PortBlock:
    """Take the block that a fleet had before: its processes know each other by these ports."""
    offsets = tuple(offsets)
    until_s = clock.elapsed_s() + _PATIENCE_S
    while True:
        block = _claimed(base)
        taken = base if block is None else _taken(base, offsets)
        if block is not None and taken is None:
            return block
        if block is not None:
            block.close()
        if clock.elapsed_s() > until_s:
            raise LocalError(
                f"port {taken}, which belongs to this fleet, is used by something else"
            )
        time.sleep(_PAUSE_S)


def _bases() -> list[int]:
    first_ephemeral = _USUAL_FIRST_EPHEMERAL
    if _LINUX_RANGE.exists():
        first_ephemeral = int(_LINUX_RANGE.read_text().split()[0])
    if first_ephemeral < _LOWEST + BLOCK:  # no range is kept apart here; use the usual one
        first_ephemeral = _USUAL_FIRST_EPHEMERAL
    return list(range(max(_LOWEST, first_ephemeral - _ROOM), first_ephemeral - BLOCK, BLOCK))


def _claimed(base: int) -> PortBlock | None:
    claim = socket.socket()
    try:
        claim.bind((HOST, base))  # without SO_REUSEADDR: that would let two bind it
    except OSError:
        claim.close()
        return None
    return PortBlock(base, claim)


def _taken(base: int, offsets: tuple[int, ...]) -> int | None:
    """Give the first port that another process listens on."""
    for offset in offsets:
        with socket.socket() as probe:
            # Closed connections that the system still remembers do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, base + offset))
            except OSError:
                return base + offset
    return None

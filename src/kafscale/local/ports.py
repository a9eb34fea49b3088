"""Ports of a fleet: a block of neighbours, chosen once and kept with the fleet's folder.

They lie below the range that the system hands out to outgoing connections: there a port of a
process that is just being started again could be gone. The first port of a block is bound by
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
_ROOM: Final = 12_000  # how far below that we look
_LOWEST: Final = 10_000
_PATIENCE_S: Final = 5.0  # for processes of a fleet whose supervisor was killed a moment ago
_PAUSE_S: Final = 0.1


class Block:
    """A block of ports, ours until closed."""

    def __init__(self, base: int, claim: socket.socket) -> None:
        self.base = base
        self._claim = claim

    def close(self) -> None:
        """Let others have it."""
        self._claim.close()


def choose(offsets: Iterable[int], dice: Dice) -> Block:
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


def take(base: int, offsets: Iterable[int], clock: Clock) -> Block:
    """Take the block a fleet had before, whose ports its members know each other by."""
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
    if first_ephemeral < _LOWEST + BLOCK:  # nothing is kept apart here; take the usual place
        first_ephemeral = _USUAL_FIRST_EPHEMERAL
    return list(range(max(_LOWEST, first_ephemeral - _ROOM), first_ephemeral - BLOCK, BLOCK))


def _claimed(base: int) -> Block | None:
    claim = socket.socket()
    try:
        claim.bind((HOST, base))  # without SO_REUSEADDR: that would let two bind it
    except OSError:
        claim.close()
        return None
    return Block(base, claim)


def _taken(base: int, offsets: tuple[int, ...]) -> int | None:
    """Give the first port that somebody listens on."""
    for offset in offsets:
        with socket.socket() as probe:
            # Connections of the past that the system still remembers do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, base + offset))
            except OSError:
                return base + offset
    return None

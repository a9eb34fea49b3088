"""Blocks of ports: never shared by two fleets, never with a port in use."""

import socket

import pytest

from kafscale.local import ports
from kafscale.local.errors import LocalError
from kafscale.system import SystemClock, SystemDice
from kafscale.testing.clock import SeededDice


class HurriedClock:
    """An hour passes between two looks."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return 0

    def elapsed_s(self) -> float:
        self.now_s += 3600
        return self.now_s


def test_two_fleets_do_not_get_the_same_block() -> None:
    one = ports.choose([1, 2], SeededDice())
    other = ports.choose([1, 2], SeededDice())
    assert one.base != other.base
    one.close()
    other.close()


def test_a_block_with_a_port_in_use_is_passed_over() -> None:
    free = ports.choose([1, 2], SystemDice())
    free.close()
    with socket.create_server((ports.HOST, free.base + 2)):
        with pytest.raises(LocalError, match=f"port {free.base + 2}, which belongs to this fleet"):
            ports.take(free.base, [1, 2], HurriedClock())
        ports.take(free.base, [1], SystemClock()).close()


def test_a_block_in_use_is_not_taken_again() -> None:
    block = ports.choose([1], SystemDice())
    with pytest.raises(LocalError, match=f"port {block.base}, which"):
        ports.take(block.base, [1], HurriedClock())
    block.close()
    ports.take(block.base, [1], HurriedClock()).close()


def test_ports_lie_outside_the_range_of_outgoing_connections() -> None:
    block = ports.choose([1], SystemDice())
    block.close()
    with socket.socket() as outgoing:
        outgoing.bind((ports.HOST, 0))
        chosen_by_the_system = outgoing.getsockname()[1]
    assert block.base + ports.BLOCK <= chosen_by_the_system

"""A network of its own for a control plane and its pods: no port of this machine is used.

In this room: the calling thread changes into a new network namespace and back. Programs that it
starts are inside, too. Every address of the pods, nodes and Services is local there.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator

from tests.support.maven import Unavailable

PODS = "10.77"  # API validation refuses loopback addresses as endpoints
SERVICES = "10.96"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@contextlib.contextmanager
def private_network() -> Iterator[None]:
    """Change into a new network, and back. Raises Unavailable where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(_NEW_NETWORK):
            why = os.strerror(ctypes.get_errno())
            raise Unavailable(f"this user cannot make a network namespace: {why}")
        try:
            _ip("link", "set", "lo", "up")
            for network in (PODS, SERVICES):
                _ip("route", "add", "local", f"{network}.0.0/16", "dev", "lo")
            yield
        finally:
            if libc.setns(before, _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "cannot return to the network of this machine")
    finally:
        os.close(before)


def _ip(*words: str) -> None:
    try:
        subprocess.run(["ip", *words], check=True, capture_output=True)
    except FileNotFoundError as missing:
        raise Unavailable("the program ip is not installed (iproute2)") from missing

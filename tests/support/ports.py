"""Free ports on loopback."""

import random
import socket

# Below those that systems give to outgoing connections: while a broker is down, no client can
# be given its port.
_RANGE = range(10_000, 32_768)
_given: set[int] = set()


def is_open(port: int) -> bool:
    """Whether a process listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that no process listens on, never the same one twice in this process."""
    while True:
        port = random.choice(_RANGE)
        if port in _given:
            continue
        _given.add(port)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

"""A way to a Pulsar broker that cuts its first producer off at a chosen message.

It passes frames on in both directions. On the first connection that sends messages it passes a few
of them, keeps their receipts back and drops the rest, until it is told to cut the connection. All
connections after that are left alone.
"""

import socket
import struct
import threading
from typing import Final, Self

_SEND: Final = b"\x08\x06"
_RECEIPT: Final = b"\x08\x07"


class Cutter:
    """Listens on loopback until it is closed."""

    def __init__(self, port: int, listen_port: int, passed: int) -> None:
        """`port`: of the broker. `passed`: how many messages reach it on the first connection."""
        self._port = port
        self._passed = passed
        self._lock = threading.Lock()
        self._producing: socket.socket | None = None
        self._is_cut = False
        self._messages = 0
        self._receipts = 0
        self.kept_back = threading.Event()  # the broker has answered all that was passed
        self._server = socket.create_server(("127.0.0.1", listen_port))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def cut(self) -> None:
        """End the connection that has sent messages."""
        with self._lock:
            self._is_cut = True
            found = self._producing
        assert found is not None
        found.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._port))
            for source, target in ((client, broker), (broker, client)):
                threading.Thread(
                    target=self._carry, args=(source, target, client), daemon=True
                ).start()

    def _carry(self, source: socket.socket, target: socket.socket, client: socket.socket) -> None:
        try:
            with source.makefile("rb") as frames:
                while size := frames.read(4):
                    frame = frames.read(struct.unpack(">I", size)[0])
                    if self._may_pass(frame[4:6], client):
                        target.sendall(size + frame)
        except OSError:
            pass  # the other direction has ended it
        finally:
            for one in (source, target):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # its other side was quicker

    def _may_pass(self, kind: bytes, client: socket.socket) -> bool:
        with self._lock:
            if kind not in (_SEND, _RECEIPT) or self._is_cut:
                return True
            if kind == _RECEIPT:
                self._receipts += 1
                if self._receipts == self._passed:
                    self.kept_back.set()
                return False
            self._producing = client
            self._messages += 1
            return self._messages <= self._passed

"""A client of the Fluvio protocol for tests: it sends what a test says and shows every answer."""

import asyncio
import ssl
import struct
from collections import defaultdict
from typing import Any, Self, TypeVar

from kafscale.model.endpoints import Endpoint
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.bytes_in import BytesIn
from kafscale.wire.fluvio.frame import request_frame
from kafscale.wire.fluvio.messages.objects_envelope import ObjectEnvelope, sealed
from kafscale.wire.fluvio.schema import FluvioTable, codec_of

R = TypeVar("R", bound=FluvioTable)
_ANSWER_S = 20.0


class FluvioConnection:
    """One connection; requests are numbered, and answers are kept by the number."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self._answers: dict[int, list[memoryview]] = defaultdict(list)

    @classmethod
    async def open(cls, endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> Self:
        return cls(*await asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass

    def send(self, api_key: int, version: int, message: FluvioTable) -> int:
        """Send a request; gives its number."""
        self._number += 1
        pieces = request_frame(api_key, version, self._number, "test", message)
        self._writer.write(b"".join(bytes(piece) for piece in pieces))
        return self._number

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def next_frame(self, number: int) -> memoryview:
        """The next answer to a request, behind the number; ConnectionError when there is none."""
        async with asyncio.timeout(_ANSWER_S):
            while not self._answers[number]:
                try:
                    (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                    frame = memoryview(await self._reader.readexactly(size))
                except asyncio.IncompleteReadError:
                    raise ConnectionError("the broker has closed the connection") from None
                (found,) = struct.unpack_from(">i", frame)
                self._answers[found].append(frame[4:])
        return self._answers[number].pop(0)

    async def next(self, number: int, kind: type[R], version: int) -> R:
        return schema.decode(kind, await self.next_frame(number), version)

    async def ask(self, api_key: int, version: int, message: FluvioTable, kind: type[R]) -> R:
        return await self.next(self.send(api_key, version, message), kind, version)

    def has_no_answer(self, number: int) -> bool:
        """Whether nothing has been read for a request."""
        return not self._answers[number]

    def ask_about(self, api_key: int, version: int, label: str, payload: FluvioTable) -> int:
        """Send a request about objects; gives its number."""
        return self.send(api_key, version, sealed(label, payload, version))

    async def payload(self, number: int, version: int) -> tuple[str, memoryview]:
        """Label and payload of the next answer about objects."""
        envelope = await self.next(number, ObjectEnvelope, version)
        assert isinstance(envelope.payload, memoryview)
        return envelope.label, envelope.payload


class Updates:
    """What a watch was told, read."""

    def __init__(self, payload: memoryview, kind: type[FluvioTable], version: int) -> None:
        source = BytesIn(payload)
        row = codec_of(kind, version)
        self.epoch: int = source.unpack(struct.Struct(">q"))
        self.changes: list[tuple[int, Any]] = [
            (source.unpack(struct.Struct(">B")), row.read(source)) for _ in range(source.count(1))
        ]
        self.all: list[Any] = [row.read(source) for _ in range(source.count(1))]
        assert source.at == len(payload)


def objects_in(payload: memoryview, kind: type[FluvioTable], version: int) -> list[Any]:
    """The objects of a list."""
    source = BytesIn(payload)
    row = codec_of(kind, version)
    found = [row.read(source) for _ in range(source.count(1))]
    assert source.at == len(payload)
    return found

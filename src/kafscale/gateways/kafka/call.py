"""What a handler gets and what it may give back."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from kafscale.engine.engine import Engine
from kafscale.gateways.kafka.fetch_sessions import FetchSessions
from kafscale.wire.kafka.schema import Message


class CloseConnection(Exception):
    """The protocol's way to refuse: no answer can be given, so the connection ends."""


@dataclass(slots=True)
class Context:
    """What all Kafka connections of a broker share."""

    engine: Engine
    fetch_sessions: FetchSessions
    longest_wait_s: float
    offered: tuple[tuple[int, range], ...]  # API keys and their versions


@dataclass(slots=True)
class Call:
    """One request on its way."""

    context: Context
    message: Any  # the request type of the API at hand
    version: int
    began_s: float  # by the engine's clock
    peer: str = ""  # the client's address, for the log

    @property
    def engine(self) -> Engine:
        """The engine this call is for."""
        return self.context.engine


# The answer; None where the protocol wants none; or either of them later.
Answer = Message | None | Awaitable[Message | None]


class Api(Protocol):
    """A module of the apis folder."""

    @property
    def API_KEY(self) -> int:  # noqa: N802 - modules spell their constants so
        """Its number."""
        ...

    @property
    def VERSIONS(self) -> range:  # noqa: N802
        """What it understands."""
        ...

    def answer(self, call: Call) -> Answer:
        """Begin to answer, in the order requests came; what takes time is given back as a wait."""
        ...

"""Which logs and groups are this broker's: the questions the rest of the engine asks.

Here: the questions, and the broker that is alone and answers all of them with yes.
Next door: a broker among others (fleet.py), the arithmetic (placement.py).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from kafscale.engine.cluster.identity import Identity
from kafscale.model.endpoints import Endpoint

HAND_OVER_S: Final = 3.0  # for flushing what another broker waits for


class Node(NamedTuple):
    """A broker as clients are told of it: by the endpoint of the listener they came in by."""

    broker_id: int
    endpoints: Mapping[str, Endpoint]  # by listener name, the first one first
    rack: str | None = None


class Membership(Protocol):
    """What a broker knows of its place among the others. Logs are named by their folders."""

    on_ready: Callable[[], None]  # told whenever there may be more logs to open

    @property
    def identity(self) -> Identity:
        """Who this broker is."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other brokers use the same stores."""
        ...

    @property
    def is_controller(self) -> bool:
        """Whether what only one broker should do is for this one to do."""
        ...

    @property
    def generation(self) -> int:
        """The leader epoch of every log."""
        ...

    @property
    def has_joined(self) -> bool:
        """Whether `join` is over: before, questions about the fleet are better not answered."""
        ...

    async def joined(self) -> None:
        """Wait for that."""
        ...

    def holds(self) -> bool:
        """Whether this broker may answer for anything at all, now."""
        ...

    def may_open(self, folder: str) -> bool:
        """Whether a log is this broker's and nobody else can have it open any more."""
        ...

    async def require_log(self, folder: str) -> None:
        """Raise NotTheOwner unless `may_open`, after a short wait where it will soon be so."""
        ...

    def may_coordinate(self, group_id: str) -> bool:
        """The same for a group."""
        ...

    async def require_group(self, group_id: str) -> None:
        """Raise NotTheCoordinator unless `may_coordinate`."""
        ...

    def leader_of(self, folder: str) -> int:
        """The broker clients find a log at; -1 if there is none now."""
        ...

    def coordinator_of(self, group_id: str) -> Node | None:
        """The broker clients find a group at."""
        ...

    def nodes(self) -> list[Node]:
        """Every broker there is, by id."""
        ...

    def controller_id(self) -> int:
        """The controller; -1 if there is none now."""
        ...

    def why_not_ready(self) -> list[str]:
        """Why clients should stay away."""
        ...

    async def join(self, node: Node) -> None:
        """Tell everyone how to reach this broker, and wait a while until it has its share."""
        ...

    async def leave(self) -> None:
        """Hand everything over while requests are still answered."""
        ...

    async def failure(self) -> str:
        """Wait, perhaps for ever, for a reason to stop at once."""
        ...

    async def aclose(self) -> None:
        """Be gone for the others."""
        ...

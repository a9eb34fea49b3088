"""Which logs and groups this broker owns: the questions that the rest of the engine asks.

Here: the questions, and the events by which the cluster tells the engine what has changed.
Next door: a broker with peers (fleet.py), the only broker (single.py), the arithmetic
(placement.py).
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kafscale.engine.cluster.identity import Identity
from kafscale.model.endpoints import Endpoint


class Node(NamedTuple):
    """A broker as clients are told of it: by the endpoint of the listener they came in by."""

    broker_id: int
    endpoints: Mapping[str, Endpoint]  # by listener name, the first one first
    rack: str | None = None


class ClusterEvents(Protocol):
    """What the cluster tells the engine. The engine acts at once, without waiting."""

    def ownership_changed(self) -> asyncio.Future[None]:
        """Stop serving, now, the logs and groups that this broker may no longer open.

        The future is done when the engine has flushed and saved them.
        """
        ...

    def lease_lost(self) -> None:
        """Drop every log and group: other brokers may have them already."""
        ...

    def logs_ready(self) -> None:
        """Open owned logs that are not open yet: there may be more of them than before."""
        ...

    def brokers_changed(self) -> None:
        """Tell clients that watch: a broker has come, gone or moved to another address."""
        ...


class Membership(Protocol):
    """What a broker knows of its place among the others. Logs are named by their folders."""

    @property
    def identity(self) -> Identity:
        """The ids and the epoch of this broker."""
        ...

    @property
    def has_peers(self) -> bool:
        """Whether other brokers may use the same stores."""
        ...

    @property
    def is_controller(self) -> bool:
        """Whether this broker does the work that only one broker should do."""
        ...

    @property
    def generation(self) -> int:
        """The leader epoch of every log."""
        ...

    @property
    def transaction_version(self) -> int:
        """The version of transactions that all brokers know (decision 79)."""
        ...

    @property
    def has_joined(self) -> bool:
        """Whether `join` is over; before, a broker should not answer questions about the fleet."""
        ...

    async def joined(self) -> None:
        """Wait for that."""
        ...

    def holds(self) -> bool:
        """Whether this broker may answer for its logs and groups now."""
        ...

    def may_open(self, folder: str) -> bool:
        """Whether this broker owns a log and no other broker can have it open any more."""
        ...

    async def require_log(self, folder: str) -> None:
        """Raise NotTheOwner unless `may_open`; wait shortly if the log is about to come."""
        ...

    def may_coordinate(self, group_id: str) -> bool:
        """The same for a group."""
        ...

    async def require_group(self, group_id: str) -> None:
        """Raise NotTheCoordinator unless `may_coordinate`."""
        ...

    def leader_of(self, folder: str) -> int:
        """The id of the broker that serves a log; -1 if there is none now."""
        ...

    def coordinator_of(self, group_id: str) -> Node | None:
        """The broker that coordinates a group."""
        ...

    def nodes(self) -> list[Node]:
        """Every broker, by id."""
        ...

    def vanished_nodes(self) -> list[Node]:
        """Brokers that are gone, and that clients may still wait for (decision 65)."""
        ...

    def controller_id(self) -> int:
        """The id of the controller; -1 if there is none now."""
        ...

    def why_not_ready(self) -> list[str]:
        """Why clients should stay away."""
        ...

    def start(self, events: ClusterEvents) -> None:
        """Tell `events` what changes from now on. Comes before `join`."""
        ...

    async def join(self, node: Node) -> None:
        """Register how to reach this broker, and wait a while until it has its share."""
        ...

    async def leave(self) -> None:
        """Hand everything over while requests are still answered."""
        ...

    async def failure(self) -> str:
        """Wait for a reason to stop at once; there may never be one."""
        ...

    async def aclose(self) -> None:
        """Give up this broker's place among the others."""
        ...

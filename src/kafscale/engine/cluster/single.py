"""The only broker of its metadata store: it owns everything, at once and always.

Next door: the questions (membership.py), a broker among others (fleet.py).
"""

import asyncio

from kafscale.engine.cluster.identity import Identity
from kafscale.engine.cluster.membership import ClusterEvents, Node
from kafscale.transactions.rows import TRANSACTION_VERSION


class SingleBroker:
    """Implements Membership without a lease, a watch or a wait."""

    has_peers = False
    is_controller = True
    has_joined = True
    transaction_version = TRANSACTION_VERSION

    def __init__(self, identity: Identity) -> None:
        """Own everything under the epoch of this start."""
        self.identity = identity
        self.generation = identity.epoch
        self._events: ClusterEvents | None = None
        self._node = Node(identity.broker_id, {})
        self._is_leaving = False

    def holds(self) -> bool:
        """Always."""
        return True

    def may_open(self, folder: str) -> bool:
        """Always."""
        return True

    async def require_log(self, folder: str) -> None:
        """Never refuses."""

    def may_coordinate(self, group_id: str) -> bool:
        """Always."""
        return True

    async def require_group(self, group_id: str) -> None:
        """Never refuses."""

    def leader_of(self, folder: str) -> int:
        """This one."""
        return self.identity.broker_id

    def coordinator_of(self, group_id: str) -> Node | None:
        """This one."""
        return self._node

    def nodes(self) -> list[Node]:
        """This one."""
        return [self._node]

    def vanished_nodes(self) -> list[Node]:
        """There are no others."""
        return []

    def controller_id(self) -> int:
        """This one."""
        return self.identity.broker_id

    def why_not_ready(self) -> list[str]:
        """Only while it stops."""
        return ["the broker is leaving"] if self._is_leaving else []

    def start(self, events: ClusterEvents) -> None:
        """Keep `events`: the only one that ever happens is `logs_ready`."""
        self._events = events

    async def join(self, node: Node) -> None:
        """Let clients find this broker at `node`."""
        self._node = node
        if self._events is not None:
            self._events.logs_ready()

    async def joined(self) -> None:
        """At once."""

    async def leave(self) -> None:
        """Only report it: there is no other broker to hand anything to."""
        self._is_leaving = True

    async def failure(self) -> str:
        """Wait without end: no other broker can take anything from this one."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def aclose(self) -> None:
        """Do nothing: no other broker needs to know."""

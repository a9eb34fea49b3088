"""Where a partition is now, for a client that has asked the wrong broker.

Here: the leader of each such partition, and how the client reaches it.
"""

from kafscale.gateways.kafka.calls.call import Call
from kafscale.gateways.kafka.calls.share_sessions import SharePlace
from kafscale.model.errors import KafscaleError, NotTheOwner, UnknownTopicId
from kafscale.wire.kafka.messages.share_acknowledge import ShareLeader, ShareNodeEndpoint


class Leaders:
    """Collects the brokers that an answer names."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._named: set[int] = set()

    def of(self, place: SharePlace, problem: KafscaleError | None) -> ShareLeader:
        """The leader of a partition if it is another broker; else none is named."""
        if not isinstance(problem, NotTheOwner):
            return ShareLeader(-1, -1)
        try:
            topic = self._call.engine.topics.get_by_id(place[0])
        except UnknownTopicId:
            return ShareLeader(-1, -1)
        cluster = self._call.engine.cluster
        leader = cluster.leader_of(topic.folder(place[1]))
        self._named.add(leader)
        return ShareLeader(leader, cluster.generation)

    def endpoints(self) -> list[ShareNodeEndpoint]:
        """How the client reaches the brokers that were named."""
        return [
            ShareNodeEndpoint(node.broker_id, endpoint.host, endpoint.port, node.rack)
            for node, endpoint in self._call.reachable(self._call.engine.cluster.nodes())
            if node.broker_id in self._named
        ]

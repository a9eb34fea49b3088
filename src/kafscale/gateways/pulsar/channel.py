"""A connection as commands use it: answers, errors, and work that waits.

Next door: the order of commands (session.py), what they do (producing/commands.py,
consuming/commands.py, topics.py).
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar.context import PulsarContext, Refused
from kafscale.gateways.pulsar.errors import code_of
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, ResourceType
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import write_command
from kafscale.wire.pulsar.messages.commands import Command, Connect, Error, FeatureFlags

logger = structlog.get_logger()

MOST_NAME: Final = 1024  # characters of a producer's, consumer's or subscription's name
_MOST_UNDER_WAY: Final = 1000  # commands that wait for something
_CPP: Final = "Pulsar-CPP"  # the client below Python's, Node's and others


class Channel:
    """One connection, its client, and the commands that are under way."""

    def __init__(
        self, connection: Connection, context: PulsarContext, room_again: Callable[[], None]
    ) -> None:
        """`room_again` is called when a command that waited has ended."""
        self.connection = connection
        self.context = context
        self.is_connected = False  # the client has said CONNECT
        self.is_closed = False
        self.is_cpp = False
        self.wants_index = False  # of entries: what a broker adds to them
        self._room_again = room_again
        self._under_way = 0

    def greet(self, command: Connect) -> None:
        """Note what kind of client this is."""
        offered = command.feature_flags or FeatureFlags()
        self.is_connected = True
        self.is_cpp = command.client_version.startswith(_CPP)
        self.wants_index = bool(offered.supports_broker_entry_metadata)

    @property
    def has_room(self) -> bool:
        """Whether another command may begin."""
        is_held_up = self.connection.is_write_blocked or self.connection.is_muted
        return self._under_way < _MOST_UNDER_WAY and not is_held_up

    def require(self, operation: AccessOperation, kind: ResourceType, name: str) -> None:
        """Raise Refused unless the client may do this."""
        self.context.require(self.connection, operation, kind, name)

    def require_create(self, topic: str) -> None:
        """Raise Refused unless the client may create this topic, or any topic."""
        connection, create = self.connection, AccessOperation.CREATE
        may_create = self.context.authorizer.allows(
            connection.principal, connection.peer, create, ResourceType.CLUSTER, CLUSTER_NAME
        )
        if not may_create:
            self.require(create, ResourceType.TOPIC, topic)

    def send(self, command: Command) -> None:
        """Send a command."""
        self.connection.send((write_command(command),))

    def answer(self, command: Command, held_bytes: int) -> None:
        """Answer a command that is done."""
        self.send(command)
        self.connection.release(held_bytes)

    def fail(self, request_id: int, problem: KafscaleError | Refused) -> None:
        """Answer that something is not done."""
        error = Error(request_id=request_id, error=error_of(problem), message=str(problem))
        self.send(error)

    def later(self, work: Coroutine[Any, Any, None], name: str, held_bytes: int) -> None:
        """Do what waits, beside the commands behind it. Such work begins in its order."""
        self._under_way += 1
        self.context.tasks.spawn(self._run(work, name, held_bytes), name)

    async def _run(self, work: Coroutine[Any, Any, None], name: str, held_bytes: int) -> None:
        try:
            await work
        except Exception:
            logger.exception("command_failed", command=name)
            self.connection.abort("internal_error")
        finally:
            self._under_way -= 1
            self.connection.release(held_bytes)
            self._room_again()


def error_of(problem: KafscaleError | Refused) -> ServerError:
    """The code that a client gets."""
    return problem.code if isinstance(problem, Refused) else code_of(problem)

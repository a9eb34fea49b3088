"""Create (1001), Delete (1002) and Update (1006) of one object.

A table may be the beginning of another one: the fields that all kinds of objects have are read
before it is known whether the rest can be read.
"""

from typing import Annotated, Final

from kafscale.wire.fluvio.errors import NO_ERROR, FluvioError
from kafscale.wire.fluvio.messages.objects import Computed, ReplicaSpec, TopicSpec
from kafscale.wire.fluvio.schema import U32, FluvioTable, OneOf, VersionSpan

CREATE_KEY: Final = 1001
DELETE_KEY: Final = 1002
UPDATE_KEY: Final = 1006


class NamedRequest(FluvioTable, frozen=True):
    """The beginning of all three: the name of the object."""

    name: str = ""


class CreateBegin(FluvioTable, frozen=True):
    """The beginning of a request for a topic, up to the field that says whether it is a mirror."""

    name: str = ""
    dry_run: bool = False
    timeout_ms: U32 | None = None
    replicas: ReplicaSpec = Computed()


class CreateTopic(FluvioTable, frozen=True):
    name: str = ""
    dry_run: bool = False
    timeout_ms: U32 | None = None
    spec: TopicSpec = TopicSpec()


class DeleteTopic(FluvioTable, frozen=True):
    name: str = ""
    force: Annotated[bool, VersionSpan(13)] = False


class AddPartitions(FluvioTable, frozen=True):
    count: U32 = 0


class AddMirror(FluvioTable, frozen=True):
    remote_cluster: str = ""
    other: bool = False


class UpdateTopic(FluvioTable, frozen=True):
    name: str = ""
    action: Annotated[AddPartitions | AddMirror, OneOf(AddPartitions, AddMirror)] = AddPartitions()


class Status(FluvioTable, frozen=True):
    """The response of all three; it has no envelope."""

    name: str = ""
    error: FluvioError = NO_ERROR
    error_message: str | None = None

"""The types of groups, and the machine of each."""

from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.consumer.machine import ConsumerGroup
from kafscale.groups.share.machine import ShareGroup
from kafscale.model.group_types import CONSUMER, SHARE

GroupMachine = ClassicGroup | ConsumerGroup | ShareGroup

# Of types whose partitions the coordinator assigns.
ASSIGNED_GROUPS: dict[str, type[ConsumerGroup] | type[ShareGroup]] = {
    CONSUMER: ConsumerGroup,
    SHARE: ShareGroup,
}

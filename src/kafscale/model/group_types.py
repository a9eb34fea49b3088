"""The types of groups, by their names in Kafka."""

from typing import Final

CLASSIC: Final = "classic"  # a member assigns the partitions
CONSUMER: Final = "consumer"  # the coordinator does
SHARE: Final = "share"  # so it does here, and members share partitions

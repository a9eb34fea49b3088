"""The features that ApiVersions names, as Kafka's brokers name them to clients and tools.

Here: one row per feature. Next door: which brokers know which transactions
(engine/cluster/controller.py).
"""

from typing import Final, NamedTuple

from kafscale.engine.cluster.membership import Membership
from kafscale.transactions.rows import TRANSACTION_VERSION


class Feature(NamedTuple):
    """A feature, and the levels of it that this broker has."""

    name: str
    lowest: int
    highest: int


_GROUPS: Final = Feature("group.version", 0, 1)  # consumer groups of KIP-848
_SHARE_GROUPS: Final = Feature("share.version", 0, 1)  # share groups of KIP-932
_TRANSACTIONS: Final = Feature("transaction.version", 0, TRANSACTION_VERSION)
FEATURES: Final = (_GROUPS, _SHARE_GROUPS, _TRANSACTIONS)


def levels_of(cluster: Membership) -> dict[Feature, int]:
    """The level of each feature that holds in the cluster: all its brokers have it."""
    levels = {_GROUPS: _GROUPS.highest, _SHARE_GROUPS: _SHARE_GROUPS.highest}
    if level := cluster.transaction_version:
        levels[_TRANSACTIONS] = level
    return levels

"""Which requests the proxy reads, and what answers them. All others pass as they are."""

from collections.abc import Awaitable, Callable
from typing import Final

from kafscale.proxy.apis import (
    administration,
    cluster,
    configs,
    fetch,
    groups,
    log_queries,
    produce,
    transactions,
)
from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall

RequestHandler = Callable[[ProxyCall], Awaitable[ProxyAnswer]]

PRODUCE: Final = 0
API_VERSIONS: Final = 18

# At every address: they are about names and numbers that clients see otherwise.
EVERYWHERE: Final[dict[int, RequestHandler]] = {
    3: cluster.metadata,
    8: groups.offset_commit,
    9: groups.offset_fetch,
    10: cluster.find_coordinator,
    19: administration.create_topics,
    20: administration.delete_topics,
    24: transactions.add_partitions_to_txn,
    28: transactions.txn_offset_commit,
    32: configs.describe_configs,
    33: configs.alter_configs,
    37: administration.create_partitions,
    42: groups.delete_groups,
    44: configs.incremental_alter_configs,
    47: groups.offset_delete,
    60: cluster.describe_cluster,
}
# At the proxy's own address: virtual partitions are led from there.
AT_OWN_ADDRESS: Final[dict[int, RequestHandler]] = EVERYWHERE | {
    0: produce.produce,
    1: fetch.fetch,
    2: log_queries.list_offsets,
    21: log_queries.delete_records,
    23: log_queries.offset_for_leader_epoch,
}

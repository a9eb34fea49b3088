"""Users, access control lists, quotas and transactions, as brokers tell them.

Quotas and transactions are asked for in Kafka's own messages, whose code takes 3 MB: it is imported
when a page asks.
"""

from typing import Final

from kafscale.admin.access import roles, users
from kafscale.console.answers.shapes import (
    AclList,
    AclSummary,
    QuotaList,
    QuotaRow,
    UserList,
    UserRow,
)
from kafscale.console.answers.store_shapes import TransactionList, TransactionRow
from kafscale.console.call import ApiCall, Handlers

_MOST_SHOWN: Final = 1000


async def list_users(call: ApiCall) -> UserList:
    """Give the users who log in by SCRAM."""
    found = await call.services.cluster.ask(users.list_users)
    names: dict[str, list[str]] = {}
    for one in found:
        names.setdefault(one.user, []).append(one.mechanism)
    return UserList(items=[UserRow(name=name, mechanisms=names[name]) for name in sorted(names)])


async def list_acls(call: ApiCall) -> AclList:
    """Give the access control lists of topics, groups and the cluster."""
    found = await call.services.cluster.ask(roles.list_acls)
    return AclList(
        items=sorted(
            (AclSummary(**one._asdict()) for one in found),
            key=lambda row: (row.principal, row.resource_type, row.resource, row.operation),
        )
    )


async def list_quotas(call: ApiCall) -> QuotaList:
    """Give the quotas of clients and users."""
    from kafscale.admin.access import quotas

    cluster = call.services.cluster
    found = await cluster.ask(quotas.list_quotas, cluster.settings)
    return QuotaList(items=[QuotaRow(entity=one.entity, values=one.values) for one in found])


async def list_transactions(call: ApiCall) -> TransactionList:
    """Give transactions, those that run first."""
    from kafscale.admin.brokers import transactions

    cluster = call.services.cluster
    found = await cluster.ask(transactions.list_transactions, cluster.settings)
    rows = [
        TransactionRow(
            transactional_id=one.transactional_id,
            producer_id=str(one.producer_id),
            state=one.state,
            coordinator=one.coordinator,
            started_ms=one.started_ms,
            timeout_ms=one.timeout_ms,
            topics=sorted(one.topics),
            partitions=sum(map(len, one.topics.values())),
        )
        for one in found
    ]
    rows.sort(key=lambda row: (row.started_ms is None, row.started_ms, row.transactional_id))
    return TransactionList(items=rows[:_MOST_SHOWN], as_of_ms=call.services.clock.now_ms())


HANDLERS: Final[Handlers] = {
    "list_users": list_users,
    "list_acls": list_acls,
    "list_quotas": list_quotas,
    "list_transactions": list_transactions,
}

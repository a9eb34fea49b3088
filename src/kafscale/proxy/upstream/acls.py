"""The access control lists of the upstream, asked for again and again.

Here: rows of DescribeAcls become bindings; the authorizer that decides by them. The lists are the
cluster's own, so that its tools change them for clients of the proxy, too.
Next door: the rules (access/decision.py), what each request asks for (proxy/access/front.py).
"""

import asyncio
from typing import Final

import structlog

from kafscale.access.acls import AclBinding
from kafscale.access.decision import AclAuthorizer, AclIndex
from kafscale.engine.access.acls import AclRules
from kafscale.gateways.kafka.access.acl_messages import read_binding
from kafscale.model.errors import KafscaleError
from kafscale.proxy.upstream.cluster import Upstream, UpstreamRefused
from kafscale.wire.kafka.messages.create_acls import AclCreation
from kafscale.wire.kafka.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

logger = structlog.get_logger()

LOOK_S: Final = 1.0
_ANY: Final = 1


class UpstreamAcls:
    """All bindings of the upstream; the last known ones while it is away."""

    def __init__(self, upstream: Upstream, rules: AclRules) -> None:
        self._upstream = upstream
        self._index = AclIndex()
        self._known: frozenset[AclBinding] = frozenset()
        self.authorizer = AclAuthorizer(
            self._index, rules.super_users, allows_without_acl=rules.allows_without_acl
        )

    async def load(self) -> None:
        """Ask for all bindings. Raises UpstreamLost, UpstreamRefused, InvalidAcl, TimeoutError.

        One that cannot be read may be one that denies, so none is left out.
        """
        link = await self._upstream.link(None, "acls")
        asked = DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY)
        answer = await link.ask(asked, DescribeAclsResponse)
        if answer.error_code:
            raise UpstreamRefused(answer.error_code, "the upstream's access control lists")
        self._take(read_bindings(answer))

    def _take(self, found: frozenset[AclBinding]) -> None:
        if found == self._known:
            return
        for gone in self._known - found:
            self._index.discard(gone)
        for new in found - self._known:
            self._index.add(new)
        self._known = found
        self.authorizer.forget()
        logger.info("acls_changed", bindings=len(found))

    async def keep_loading(self) -> None:
        """Follow what others change, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.load()
            except (KafscaleError, TimeoutError) as problem:
                logger.warning("acls_not_read", reason=str(problem))


def read_bindings(answer: DescribeAclsResponse) -> frozenset[AclBinding]:
    """What DescribeAcls says. Raises InvalidAcl."""
    return frozenset(
        read_binding(
            AclCreation(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                resource_pattern_type=resource.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
        for resource in answer.resources
        for acl in resource.acls
    )

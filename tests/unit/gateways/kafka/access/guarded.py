"""A broker with access control lists, and an authorizer that takes its clients for any user."""

import msgspec

from kafscale.model.security.access import (
    AccessOperation,
    AllowAll,
    Authorizer,
    Principal,
    ResourceType,
)
from kafscale.settings.config import Config
from kafscale.settings.sections import AuthorizationSection
from kafscale.settings.values import Principals
from kafscale.testing.in_process import FOR_TESTS

ADMIN = Principal("User", "admin")


def guarded_config() -> Config:
    """The settings of a broker whose one super user is `ADMIN`."""
    section = AuthorizationSection(enabled=True, super_users=Principals([ADMIN]))
    return msgspec.structs.replace(FOR_TESTS, authorization=section)


class Acting:
    """An authorizer that takes every client for one principal and asks another authorizer."""

    allows_all = False

    def __init__(self) -> None:
        self.inner: Authorizer = AllowAll()
        self.principal = ADMIN

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
    ) -> bool:
        return self.inner.allows(self.principal, host, operation, kind, name)

    def allows_any(
        self, principal: Principal, host: str, operation: AccessOperation, kind: ResourceType
    ) -> bool:
        return self.inner.allows_any(self.principal, host, operation, kind)

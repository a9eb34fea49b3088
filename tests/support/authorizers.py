"""An authorizer that a test gives its rule."""

from collections.abc import Callable

from kafscale.model.security.access import AccessOperation, Principal, ResourceType


class Denies:
    """Implements Authorizer: denies resources by their type and name; without a rule, all."""

    allows_all = False

    def __init__(
        self, is_denied: Callable[[ResourceType, str], bool] = lambda kind, name: True
    ) -> None:
        self._is_denied = is_denied
        self.asked_for: set[Principal] = set()

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
    ) -> bool:
        self.asked_for.add(principal)
        return not self._is_denied(kind, name)

    def allows_any(
        self, principal: Principal, host: str, operation: AccessOperation, kind: ResourceType
    ) -> bool:
        return not self._is_denied(kind, "")

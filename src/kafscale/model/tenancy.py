"""Tenants and namespaces: three ways to write the name of a topic, and the one it is kept under.

    my-topic                              a topic of the default tenant and namespace
    my-tenant/my-ns/my-topic              a topic of another one
    persistent://my-tenant/my-ns/my-topic the same

Here: which of these forms mean the same topic. Next door: which names a topic may have (names.py).
"""

from typing import Final, NamedTuple

from kafscale.model.errors import InvalidTopicName
from kafscale.model.names import is_internal

_PERSISTENT: Final = "persistent://"
_KAFKAS_OWN: Final = "__kafka"  # the namespace of topics that Kafka's brokers have for themselves


class Tenancy(NamedTuple):
    """The tenant and namespace of names that have none."""

    tenant: str = "public"
    namespace: str = "default"

    def canonical(self, name: str) -> str:
        """The name that a topic is kept under: short in the default namespace, else in three parts.

        Raises InvalidTopicName for names in two parts, in more than three, or of another kind.
        """
        short = name.removeprefix(_PERSISTENT)
        if "://" in short:
            raise InvalidTopicName(f"only persistent topics are kept, not {name!r}")
        parts = short.split("/")
        if len(parts) == 1 and short is not name:
            raise InvalidTopicName(f"{name!r} lacks its tenant and namespace")
        if len(parts) not in (1, 3) or not all(parts):
            raise InvalidTopicName(f"a name is 'topic' or 'tenant/namespace/topic', not {name!r}")
        if parts[:-1] == [self.tenant, self.namespace]:
            return parts[-1]
        if parts[:-1] == [self.tenant, _KAFKAS_OWN] and is_internal(parts[-1]):
            return parts[-1]
        return short

    def full(self, canonical: str) -> str:
        """The longest form of a name."""
        if is_internal(canonical):
            return f"{_PERSISTENT}{self.tenant}/{_KAFKAS_OWN}/{canonical}"
        if "/" in canonical:
            return f"{_PERSISTENT}{canonical}"
        return f"{_PERSISTENT}{self.tenant}/{self.namespace}/{canonical}"

"""The plan of a user: its login and its access control list.

Here: a pure comparison of what is wanted with what brokers have. The object owns all rights of its
user: those that it does not name are taken away.
Next door: asking the brokers (loops/users.py).
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kafscale.access.acls import AclBinding, PatternType, Permission
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, Principal, ResourceType
from kafscale.operator.kinds.user import KafscaleUser
from kafscale.operator.planning.conditions import Judgement
from kafscale.operator.planning.topics import PAUSED

USER_FINALIZER: Final = "kafscale.io/user"


class UserPlan(Struct, frozen=True, kw_only=True):
    """What is to be asked of the brokers, and what is told."""

    sets_password: bool = False
    added: frozenset[AclBinding] = frozenset()
    removed: frozenset[AclBinding] = frozenset()
    finding: Judgement = Judgement("Ready", True, "Ready")
    told: tuple[tuple[str, str], ...] = ()  # events: reason, words


def refuse_user(reason: str, words: str) -> UserPlan:
    """Ask for nothing, and say why."""
    return UserPlan(finding=Judgement("Ready", False, reason, words))


def principal_of(user: KafscaleUser) -> Principal:
    """Who the user is to brokers."""
    return Principal("User", user.user)


def wanted_acls(user: KafscaleUser) -> frozenset[AclBinding]:
    """The access control list that the object describes."""
    return frozenset(_bindings(user))


def _bindings(user: KafscaleUser) -> Iterator[AclBinding]:
    for acl in user.spec.acls:
        kind = ResourceType[_upper(acl.resource)]
        for operation in acl.operations:
            yield AclBinding(
                kind,
                PatternType[acl.pattern.upper()],
                CLUSTER_NAME if kind is ResourceType.CLUSTER else acl.name,
                principal_of(user),
                acl.host,
                AccessOperation[_upper(operation)],
                Permission[acl.permission.upper()],
            )


def _upper(word: str) -> str:
    """TransactionalId becomes TRANSACTIONAL_ID."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in word)[1:].upper()


def plan_user(user: KafscaleUser, acls: frozenset[AclBinding], *, has_login: bool) -> UserPlan:
    """Compare an object with what brokers have of its user."""
    if user.metadata.annotations.get(PAUSED) == "true":
        return UserPlan(finding=Judgement("Ready", None, "Paused", "the object is paused"))
    wanted = wanted_acls(user)
    added, removed = wanted - acls, acls - wanted
    is_known = user.status.secret_name == user.secret
    return UserPlan(
        sets_password=not (has_login and is_known),
        added=added,
        removed=removed,
        told=tuple(_news(user, added, removed, has_login=has_login)),
    )


def _news(
    user: KafscaleUser,
    added: frozenset[AclBinding],
    removed: frozenset[AclBinding],
    *,
    has_login: bool,
) -> Iterator[tuple[str, str]]:
    if not user.status.secret_name:
        if has_login:
            yield "Adopted", f"user {user.user} was there already and has another password now"
        return
    if user.status.observed_generation == user.metadata.generation and (added or removed):
        words = f"{len(added)} rights were missing and {len(removed)} were too many"
        yield "DriftCorrected", words

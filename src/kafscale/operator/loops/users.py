"""The control loop of users: all users of one cluster at a time.

Here: the Secret with the password first, then the login at the brokers, then rights.
Next door: the comparison (planning/users.py), asking brokers (admin/brokers), where passwords come
from (passwords.py).
"""

import asyncio
from typing import Any, Final

from kafscale.access.acls import AclBinding
from kafscale.admin.access import roles, users
from kafscale.admin.brokers.client import KafkaAdmin
from kafscale.admin.errors import AdminError
from kafscale.model.clock import Clock
from kafscale.operator.brokers.clients import BrokerClients
from kafscale.operator.kinds.cluster import API_VERSION, KafscaleCluster
from kafscale.operator.kinds.user import KafscaleUser, UserObjectStatus
from kafscale.operator.kube.client import Kube
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.informer import Informer, Key
from kafscale.operator.loops.events import Events
from kafscale.operator.loops.object_writer import ObjectWriter, cluster_trouble, phase_of, wake
from kafscale.operator.loops.observation import Observation, objects_of
from kafscale.operator.passwords import Passwords
from kafscale.operator.planning.idleness import has_news, is_asleep, stays_told
from kafscale.operator.planning.refusals import is_passing, judge_refusal
from kafscale.operator.planning.users import (
    USER_FINALIZER,
    UserPlan,
    plan_user,
    principal_of,
    refuse_user,
)

KIND: Final = "KafscaleUser"
DRIFT_S: Final = 300.0  # between two looks at users that do not change
_SOON_S: Final = 5.0
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_ITERATIONS: Final = 4096
_FINAL: Final = ("NoLogins", "Refused")


class UserLoop:
    """Looks at the users of one cluster at a time."""

    def __init__(
        self,
        kube: Kube,
        informer: Informer,
        observation: Observation,
        clock: Clock,
        events: Events,
        passwords: Passwords,
        clients: BrokerClients,
    ) -> None:
        self._kube = kube
        self._informer = informer
        self._observation = observation
        self._writer = ObjectWriter(kube, KIND, clock, events)
        self._passwords = passwords
        self._clients = clients

    async def look(self, key: Key) -> float | None:
        """Look at all users of a cluster; gives after how many seconds to look again."""
        _, name = key
        wanted = objects_of(self._informer, KafscaleUser, key)
        if not wanted:
            return None
        cluster = self._observation.cluster(key)
        if cluster is None or cluster.metadata.deletion_timestamp is not None:
            await self._let_go(wanted)
            wanted = [user for user in wanted if user.metadata.deletion_timestamp is None]
        elif is_asleep(cluster):
            if not any(map(has_news, wanted)):
                return None  # users are as they were told to be, and stay so
            await wake(self._kube, cluster)
        trouble = cluster_trouble(cluster, name) or _no_logins(cluster)
        if trouble is not None or cluster is None:
            for user in wanted:
                if not stays_told(cluster, user):
                    await self._tell(user, refuse_user(*(trouble or ("", ""))))
            return None if cluster is None else _SOON_S
        async with self._clients.connect(cluster) as admin:
            is_done = await self._ask(admin, wanted)
        return DRIFT_S if is_done else _SOON_S

    async def _ask(self, admin: KafkaAdmin, wanted: list[KafscaleUser]) -> bool:
        """Have brokers change what differs; False if some of it has to be asked again soon."""
        logins = {one.user for one in await asyncio.to_thread(users.list_users, admin)}
        is_done = True
        for user in wanted:
            is_done &= await self._reconcile(admin, user, has_login=user.user in logins)
        return is_done

    async def _let_go(self, wanted: list[KafscaleUser]) -> None:
        """Let users go whose cluster is gone: there is no broker to ask."""
        for user in wanted:
            if user.metadata.deletion_timestamp is not None:
                await self._writer.finalize(user.metadata, USER_FINALIZER, wanted=False)

    async def _reconcile(self, admin: KafkaAdmin, user: KafscaleUser, *, has_login: bool) -> bool:
        """Have brokers change one user; False if that has to be asked again soon."""
        principal = str(principal_of(user))
        acls = frozenset(await asyncio.to_thread(roles.acls_of, admin, principal))
        if user.metadata.deletion_timestamp is not None:
            return await self._delete(admin, user, acls, has_login=has_login)
        is_deleted_with_us = user.spec.deletion_policy == "Delete"
        await self._writer.finalize(user.metadata, USER_FINALIZER, wanted=is_deleted_with_us)
        planned = plan_user(user, acls, has_login=has_login)
        try:
            await self._carry_out(admin, user, planned)
        except AdminError as refused:
            planned = UserPlan(finding=judge_refusal("Refused", str(refused), refused.code))
        for reason, words in planned.told:
            await self._writer.event(user.metadata, reason, words)
        await self._tell(user, planned)
        return not is_passing(planned.finding)

    async def _delete(
        self, admin: KafkaAdmin, user: KafscaleUser, acls: frozenset[AclBinding], *, has_login: bool
    ) -> bool:
        """Take rights and the login away, then let the object go."""
        if USER_FINALIZER in user.metadata.finalizers:
            try:
                await asyncio.to_thread(roles.remove_acls, admin, acls)
                if has_login:
                    await asyncio.to_thread(users.delete_user, admin, user.user)
            except AdminError as refused:
                finding = judge_refusal("Refused", str(refused), refused.code)
                await self._tell(user, UserPlan(finding=finding))
                return not is_passing(finding)
        await self._writer.finalize(user.metadata, USER_FINALIZER, wanted=False)
        return True

    async def _carry_out(self, admin: KafkaAdmin, user: KafscaleUser, planned: UserPlan) -> None:
        """Take rights away first: a user never has more than it had or should have."""
        await asyncio.to_thread(roles.remove_acls, admin, planned.removed)
        if planned.sets_password:
            password = await self._passwords.of_user(user)
            await self._keep_secret(user, password)
            await asyncio.to_thread(
                users.create_user, admin, user.user, password, _MECHANISMS, _ITERATIONS
            )
        await asyncio.to_thread(roles.add_acls, admin, planned.added)

    async def _keep_secret(self, user: KafscaleUser, password: str) -> None:
        try:
            await self._kube.create(_secret(user, password))
        except KubeError as problem:
            if not problem.is_conflict:  # it was made before: the password is the same
                raise

    async def _tell(self, user: KafscaleUser, planned: UserPlan) -> None:
        before = user.status
        conditions = self._writer.judged(user.metadata, before.conditions, planned.finding)
        status = UserObjectStatus(
            phase=phase_of(planned.finding, _FINAL),
            secret_name=user.secret if planned.finding.status else before.secret_name,
            observed_generation=user.metadata.generation,
            conditions=conditions,
        )
        if status != before:
            await self._writer.status(user.metadata, before.conditions, status, conditions)


def _no_logins(cluster: KafscaleCluster | None) -> tuple[str, str] | None:
    if cluster is None or cluster.spec.security is not None:
        return None
    return "NoLogins", "the cluster has no logins: set spec.security there"


def _secret(user: KafscaleUser, password: str) -> dict[str, Any]:
    login = f'username="{user.user}" password="{password}"'
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": user.secret,
            "namespace": user.metadata.namespace,
            "labels": {"app.kubernetes.io/managed-by": "kafscale-operator"},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": user.metadata.name,
                    "uid": user.metadata.uid,
                }
            ],
        },
        "stringData": {
            "username": user.user,
            "password": password,
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
            f"required {login};",
        },
    }

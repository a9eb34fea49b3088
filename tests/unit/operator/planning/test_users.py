"""What is asked of brokers so that a user is as its object says, and where passwords come from."""

from typing import Any

import msgspec
import pytest

from kafscale.access.acls import AclBinding, PatternType, Permission
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, Principal, ResourceType
from kafscale.operator.brokers.config_check import config_problem
from kafscale.operator.kinds.user import KafscaleUser
from kafscale.operator.kube.errors import KubeError
from kafscale.operator.parts import brokers
from kafscale.operator.passwords import PASSWORD_KEY, Passwords
from kafscale.operator.planning.plan import plan
from kafscale.operator.planning.seen_cluster import SeenCluster
from kafscale.operator.planning.users import plan_user, wanted_acls
from kafscale.settings.values import Principals, read_value
from kafscale.testing.clock import SeededDice
from tests.unit.operator.examples import DEFAULTS, NOW_MS, cluster
from tests.unit.operator.fake_kube import FakeKube

KNOWN = {"secretName": "alice", "observedGeneration": 1}
READ = {"resource": "Topic", "name": "orders", "operations": ["Read", "Describe"]}


def user(
    *, status: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> KafscaleUser:
    return msgspec.convert(
        {
            "metadata": {
                "name": "alice",
                "namespace": "team",
                "uid": "u-7",
                "generation": 1,
                "annotations": annotations or {},
            },
            "spec": {"clusterRef": "production", **spec},
            "status": status or {},
        },
        KafscaleUser,
    )


def binding(operation: AccessOperation, name: str = "orders") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        PatternType.LITERAL,
        name,
        Principal("User", "alice"),
        "*",
        operation,
        Permission.ALLOW,
    )


def test_a_new_user_gets_a_password_and_its_rights() -> None:
    planned = plan_user(user(acls=[READ]), frozenset(), has_login=False)
    assert planned.sets_password
    assert planned.added == {binding(AccessOperation.READ), binding(AccessOperation.DESCRIBE)}
    assert planned.removed == frozenset()


def test_a_user_that_is_as_it_should_be_asks_for_nothing() -> None:
    known = user(acls=[READ], status=KNOWN)
    planned = plan_user(known, wanted_acls(known), has_login=True)
    assert not planned.sets_password
    assert not planned.added | planned.removed
    assert planned.told == ()


def test_rights_that_the_object_does_not_name_are_taken_away_and_told() -> None:
    known = user(acls=[READ], status=KNOWN)
    more = wanted_acls(known) | {binding(AccessOperation.WRITE)}
    planned = plan_user(known, more, has_login=True)
    assert planned.removed == {binding(AccessOperation.WRITE)}
    assert [reason for reason, _ in planned.told] == ["DriftCorrected"]


def test_another_secret_asks_for_another_password() -> None:
    assert plan_user(user(status=KNOWN, secretName="x"), frozenset(), has_login=True).sets_password


def test_a_paused_user_is_left_alone() -> None:
    paused = user(acls=[READ], annotations={"kafscale.io/paused": "true"})
    planned = plan_user(paused, frozenset(), has_login=False)
    assert not planned.sets_password
    assert planned.added == frozenset()


def test_rights_of_every_kind_become_kafkas() -> None:
    found = wanted_acls(
        user(
            acls=[
                {"resource": "Cluster", "operations": ["IdempotentWrite"]},
                {
                    "resource": "TransactionalId",
                    "name": "shop-",
                    "pattern": "Prefixed",
                    "operations": ["Write"],
                    "permission": "Deny",
                    "host": "10.0.0.7",
                },
            ]
        )
    )
    assert found == {
        AclBinding(
            ResourceType.CLUSTER,
            PatternType.LITERAL,
            CLUSTER_NAME,
            Principal("User", "alice"),
            "*",
            AccessOperation.IDEMPOTENT_WRITE,
            Permission.ALLOW,
        ),
        AclBinding(
            ResourceType.TRANSACTIONAL_ID,
            PatternType.PREFIXED,
            "shop-",
            Principal("User", "alice"),
            "10.0.0.7",
            AccessOperation.WRITE,
            Permission.DENY,
        ),
    }


# -- passwords -------------------------------------------------------------------------------


async def test_passwords_are_the_same_for_every_operator_and_differ_by_purpose() -> None:
    kube = FakeKube()
    first, second = (Passwords(kube, "kafscale", SeededDice(seed)) for seed in (1, 2))
    made = [
        await first.of_user(user()),
        await first.of_user(user(secretName="other")),
        await first.of_operator(cluster()),
        await first.of_operator(cluster(name="another")),
    ]
    assert len(set(made)) == 4
    assert all(len(password) == 32 for password in made)
    assert await second.of_user(user()) == made[0]
    assert ("create", "Secret", PASSWORD_KEY) in kube.calls


async def test_an_unusable_key_is_an_error() -> None:
    kube = FakeKube()
    metadata = {"name": PASSWORD_KEY, "namespace": "kafscale"}
    await kube.create({"kind": "Secret", "metadata": metadata, "data": {"key": "eA=="}})
    with pytest.raises(KubeError, match="no usable key"):
        await Passwords(kube, "kafscale", SeededDice()).of_user(user())


# -- brokers that ask for logins -------------------------------------------------------------


TLS = {"secretRef": "certificate", "authority": "-----BEGIN CERTIFICATE-----"}


@pytest.mark.parametrize(
    ("security", "protocol"), [({}, "SASL_PLAINTEXT"), ({"tls": TLS}, "SASL_SSL")]
)
def test_brokers_take_the_settings_of_secured_clusters(
    security: dict[str, Any], protocol: str
) -> None:
    for spec in ({}, {"brokers": {"external": {"type": "LoadBalancer"}}}):
        secured = cluster(security=security, **spec)
        assert config_problem(secured) is None
        outside = {0: brokers.Address("b0.example.org", 9094)}
        (file,) = {
            text
            for name, text in brokers.settings_map(secured, outside)["data"].items()
            if name == "production-broker-0.yaml"
        }
        listeners = msgspec.json.decode(file)["listeners"]
        assert {one["protocol"] for one in listeners} == {protocol}
        assert listeners[0]["advertisedHost"] == "production-broker-0.production-brokers.team.svc"
        assert len(listeners) == (2 if spec else 1)


def test_brokers_take_the_operator_and_each_of_the_super_users_for_one() -> None:
    secured = cluster(security={"superUsers": ["User:ann", "User:CN=bob,O=team"]})
    written = brokers.broker_settings(secured)["authorization.superUsers"]
    names = [principal.name for principal in read_value(Principals, written)]
    assert names == ["kafscale-operator", "ann", "CN=bob,O=team"]


def test_listeners_are_not_for_people_to_set() -> None:
    assert config_problem(cluster(config={"broker": {"listeners": "A://b:1"}})) is not None


def test_brokers_mount_their_certificate_and_the_login_of_the_operator() -> None:
    planned = plan(cluster(security={"tls": TLS}), SeenCluster(), DEFAULTS, NOW_MS)
    (found,) = (one for one in planned.objects if one["kind"] == "StatefulSet")
    volumes = found["spec"]["template"]["spec"]["volumes"]
    secrets = {one["secret"]["secretName"] for one in volumes if "secret" in one}
    assert secrets == {"certificate", "production-operator-login"}

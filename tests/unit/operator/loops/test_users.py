"""The control loop of users: what is asked in which order, and brokers that refuse."""

from typing import Any, NamedTuple

import pytest

from kafscale.admin.access import roles, users
from kafscale.admin.errors import AdminError
from kafscale.operator.brokers import clients as broker_clients
from kafscale.operator.brokers.clients import BrokerClients
from kafscale.operator.loops.events import Events
from kafscale.operator.loops.observation import Observation
from kafscale.operator.loops.users import UserLoop
from kafscale.operator.passwords import Passwords
from kafscale.testing.clock import ManualClock, SeededDice
from tests.unit.operator.fake_kube import Copies, FakeKube

KEY = ("team", "production")
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kafscale.io/user"]}


class Login(NamedTuple):
    user: str


class Loop:
    """A control loop on a fake server, with brokers that keep logins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kube, clock = FakeKube(), ManualClock()
        informers: Any = {
            kind: Copies(self.kube, kind) for kind in ("KafscaleCluster", "KafscaleUser")
        }
        self.logins: dict[str, str] = {}
        self.refusal: AdminError | None = None
        self.asked: list[str] = []
        passwords = Passwords(self.kube, "kafscale", SeededDice())
        self.loop = UserLoop(
            self.kube,
            informers["KafscaleUser"],
            Observation(informers),
            clock,
            Events(self.kube, clock, SeededDice(), "test"),
            passwords,
            BrokerClients(passwords),
        )
        monkeypatch.setattr(broker_clients, "open_admin", lambda settings: None)
        monkeypatch.setattr(users, "list_users", lambda admin: [Login(one) for one in self.logins])
        monkeypatch.setattr(users, "create_user", self._create)
        monkeypatch.setattr(users, "delete_user", self._delete)
        monkeypatch.setattr(roles, "acls_of", lambda admin, principal: [])
        monkeypatch.setattr(roles, "add_acls", lambda admin, acls: self.asked.append("add"))
        monkeypatch.setattr(roles, "remove_acls", lambda admin, acls: self.asked.append("remove"))

    def _create(self, admin: None, name: str, password: str, *more: Any) -> None:
        self._perhaps_refuse(f"create {name}")
        self.logins[name] = password

    def _delete(self, admin: None, name: str) -> None:
        self._perhaps_refuse(f"delete {name}")
        del self.logins[name]

    def _perhaps_refuse(self, question: str) -> None:
        self.asked.append(question)
        if self.refusal is not None:
            raise self.refusal

    def cluster(self, **more: Any) -> None:
        spec = {"brokers": {}, "s3": {"bucket": "data"}, "security": {}, **more}
        metadata = {"name": KEY[1], "namespace": KEY[0]}
        status = {"brokerCount": 1}
        self.kube.put(
            {"kind": "KafscaleCluster", "metadata": metadata, "spec": spec, "status": status}
        )

    def user(self, name: str, **metadata: Any) -> None:
        whole = {"name": name, "namespace": KEY[0], "uid": name, "generation": 1, **metadata}
        spec = {"clusterRef": KEY[1]}
        before = self.kube.objects.get(("KafscaleUser", KEY[0], name), {})
        status = before.get("status", {})
        self.kube.put({"kind": "KafscaleUser", "metadata": whole, "spec": spec, "status": status})

    def ready(self, name: str) -> tuple[str, str]:
        (found,) = self.kube.objects["KafscaleUser", KEY[0], name]["status"]["conditions"]
        return found["status"], found["reason"]


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


async def test_rights_go_first_then_comes_the_login_and_last_new_rights(loop: Loop) -> None:
    loop.cluster()
    loop.user("alice")
    assert await loop.loop.look(KEY) == 300
    assert loop.asked == ["remove", "create alice", "add"]
    assert loop.ready("alice") == ("True", "Ready")
    assert ("Secret", "team", "alice") in loop.kube.objects


@pytest.mark.parametrize(("code", "reason", "again_s"), [(7, "Retrying", 5), (93, "Refused", 300)])
async def test_only_what_brokers_refuse_for_good_waits_for_a_person(
    loop: Loop, code: int, reason: str, again_s: float
) -> None:
    loop.cluster()
    loop.user("alice")
    loop.refusal = AdminError("no", code)
    assert await loop.loop.look(KEY) == again_s
    assert loop.ready("alice")[1] == reason
    loop.refusal = None
    await loop.loop.look(KEY)
    assert loop.ready("alice") == ("True", "Ready")


async def test_a_user_that_cannot_be_deleted_yet_does_not_hold_up_others(loop: Loop) -> None:
    loop.cluster()
    loop.logins["alice"] = "x"
    loop.user("alice", **GOING)
    loop.user("bob")
    loop.refusal = AdminError("no", 7)
    assert await loop.loop.look(KEY) == 5
    assert "create bob" in loop.asked
    assert loop.ready("alice") == ("Unknown", "Retrying")
    loop.refusal = None
    await loop.loop.look(KEY)
    found = loop.kube.objects["KafscaleUser", KEY[0], "alice"]
    assert found["metadata"]["finalizers"] == []
    assert loop.logins.keys() == {"bob"}


async def test_users_whose_cluster_is_gone_are_let_go(loop: Loop) -> None:
    loop.user("alice", **GOING)
    await loop.loop.look(KEY)
    found = loop.kube.objects["KafscaleUser", KEY[0], "alice"]
    assert found["metadata"]["finalizers"] == []
    assert loop.asked == []


async def test_a_cluster_without_logins_has_no_users(loop: Loop) -> None:
    loop.cluster(security=None)
    loop.user("alice")
    await loop.loop.look(KEY)
    assert loop.ready("alice") == ("False", "NoLogins")
    assert loop.asked == []

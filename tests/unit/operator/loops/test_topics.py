"""The control loop of topics: brokers that refuse, brokers that sleep."""

from typing import Any

import pytest

from kafscale.admin.brokers import topic_states, topics
from kafscale.admin.errors import AdminError
from kafscale.operator.brokers import clients as broker_clients
from kafscale.operator.brokers.clients import BrokerClients
from kafscale.operator.loops.events import Events
from kafscale.operator.loops.observation import Observation
from kafscale.operator.loops.topics import TopicLoop
from kafscale.operator.passwords import Passwords
from kafscale.testing.clock import ManualClock, SeededDice
from tests.unit.operator.fake_kube import Copies, FakeKube

KEY = ("team", "production")
SETTINGS = {"retention.ms": "604800000", "retention.bytes": "-1"}
DESCRIBED = topic_states.TopicState("id", {0: "0"}, SETTINGS, frozenset())


class Loop:
    """A control loop on a fake server, with brokers that are asked by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kube, clock = FakeKube(), ManualClock()
        informers: Any = {
            kind: Copies(self.kube, kind) for kind in ("KafscaleCluster", "KafscaleTopic")
        }
        self.there: dict[str, Any] = {}
        self.refusal: AdminError | None = None
        self.asked: list[str] = []
        clients = BrokerClients(Passwords(self.kube, "kafscale", SeededDice()))
        self.loop = TopicLoop(
            self.kube,
            informers["KafscaleTopic"],
            Observation(informers),
            clock,
            Events(self.kube, clock, SeededDice(), "test"),
            clients,
            {},
        )
        monkeypatch.setattr(broker_clients, "open_admin", self._connect)
        monkeypatch.setattr(topics, "list_topics", lambda admin: self.there)
        monkeypatch.setattr(topics, "create_topics", self._create)
        monkeypatch.setattr(topics, "delete_topics", self._delete)
        monkeypatch.setattr(topic_states, "describe_states", self._describe)

    def _connect(self, settings: Any) -> None:
        self.asked.append("connect")

    def _describe(self, admin: None, names: list[str]) -> dict[str, Any]:
        return {name: self.there[name] for name in names if name in self.there}

    def _create(self, admin: None, names: list[str], **wanted: Any) -> None:
        self._perhaps_refuse(f"create {names[0]}")
        self.there[names[0]] = DESCRIBED

    def _delete(self, admin: None, names: list[str]) -> None:
        self._perhaps_refuse(f"delete {names[0]}")
        del self.there[names[0]]

    def _perhaps_refuse(self, question: str) -> None:
        self.asked.append(question)
        if self.refusal is not None:
            raise self.refusal

    def cluster(self, brokers: int = 1, **annotations: str) -> None:
        spec = {"brokers": {"idleAfter": "5m"}, "s3": {"bucket": "data"}}
        metadata = {"name": KEY[1], "namespace": KEY[0], "annotations": annotations}
        status = {"brokerCount": brokers}
        self.kube.put(
            {"kind": "KafscaleCluster", "metadata": metadata, "spec": spec, "status": status}
        )

    def topic(self, name: str, **metadata: Any) -> None:
        whole = {"name": name, "namespace": KEY[0], "generation": 1, **metadata}
        spec = {"clusterRef": KEY[1], "partitions": 1}
        before = self.kube.objects.get(("KafscaleTopic", KEY[0], name), {})
        status = before.get("status", {})
        self.kube.put({"kind": "KafscaleTopic", "metadata": whole, "spec": spec, "status": status})

    def ready(self, name: str) -> tuple[str, str]:
        (found,) = self.kube.objects["KafscaleTopic", KEY[0], name]["status"]["conditions"]
        return found["status"], found["reason"]

    def marks(self) -> dict[str, str]:
        found: dict[str, str] = self.kube.objects["KafscaleCluster", *KEY]["metadata"][
            "annotations"
        ]
        return found


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


@pytest.mark.parametrize(
    ("code", "reason", "is_again_soon"),
    [
        (40, "ConfigRefused", False),  # the setting is wrong
        (7, "Retrying", True),  # the metadata store is away
        (-185, "Retrying", True),  # the client library had no answer
        (60, "Moving", True),  # the topic is on its way to another layout
    ],
)
async def test_only_what_brokers_refuse_for_good_waits_for_a_person(
    loop: Loop, code: int, reason: str, is_again_soon: bool
) -> None:
    loop.cluster()
    loop.topic("orders")
    loop.topic("payments")
    loop.refusal = AdminError("no", code)
    again_s = await loop.loop.look(KEY)
    assert again_s is not None
    assert (again_s < 60) is is_again_soon
    assert loop.ready("orders")[1] == loop.ready("payments")[1] == reason
    loop.refusal = None
    await loop.loop.look(KEY)
    assert loop.ready("orders") == ("True", "Ready")


async def test_a_topic_that_cannot_be_deleted_yet_does_not_hold_up_others(loop: Loop) -> None:
    loop.cluster()
    loop.there["orders"] = DESCRIBED
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kafscale.io/topic"]}
    loop.topic("orders", **going)
    loop.topic("payments")
    loop.refusal = AdminError("no", 7)
    assert await loop.loop.look(KEY) == 5
    assert loop.asked[1:] == ["delete orders", "create payments"]
    assert loop.ready("orders") == ("Unknown", "Retrying")
    loop.refusal = None
    await loop.loop.look(KEY)
    found = loop.kube.objects["KafscaleTopic", KEY[0], "orders"]
    assert found["metadata"]["finalizers"] == []


async def test_topics_of_a_sleeping_cluster_stay_as_they_are(loop: Loop) -> None:
    loop.cluster()
    loop.topic("orders")
    await loop.loop.look(KEY)
    loop.cluster(brokers=0, **{"kafscale.io/idle": "now"})
    loop.asked.clear()
    assert await loop.loop.look(KEY) is None
    assert loop.ready("orders") == ("True", "Ready")
    assert loop.asked == []
    assert "kafscale.io/idle" in loop.marks()
    loop.cluster(brokers=0)  # a client has come, and brokers start
    assert await loop.loop.look(KEY) == 5
    assert loop.ready("orders") == ("True", "Ready")


async def test_a_new_topic_wakes_a_sleeping_cluster(loop: Loop) -> None:
    loop.cluster(brokers=0, **{"kafscale.io/idle": "now"})
    loop.topic("orders")
    assert await loop.loop.look(KEY) == 5
    assert loop.ready("orders") == ("False", "ClusterNotReady")
    assert "kafscale.io/idle" not in loop.marks()


async def test_a_stopped_cluster_is_woken_by_no_topic(loop: Loop) -> None:
    marks = {"kafscale.io/idle": "now", "kafscale.io/stopped": "true"}
    loop.cluster(brokers=0, **marks)
    loop.topic("orders")
    await loop.loop.look(KEY)
    assert loop.marks() == marks

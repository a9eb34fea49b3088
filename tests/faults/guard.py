"""A fleet with everything on: TLS, SCRAM, access control lists, quotas; and an intruder.

Workers log in as a user whose rights are lists, over TLS, under quotas that count and do not bind.
What asks brokers raw questions comes in by a listener of its own, without a login.
Next door: the fleet (cluster.py), the workers (workers.py).
"""

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafscale.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.faults import places
from tests.faults.history import History
from tests.faults.workers import QUIET, Reach, Worker
from tests.support.broker import KafscaleProcess
from tests.support.certificates import Authority
from tests.unit.gateways.kafka.caller import Caller

WORKER, OUTSIDER, LEAVER = "worker", "outsider", "leaver"
PASSWORD = "a-password-of-these-tests"
_WITHIN_S = 60.0
_MECHANISM = ScramMechanism.SCRAM_SHA_256


class GuardedProcess(KafscaleProcess):
    """Its addresses are in its file alone."""

    def environment(self) -> dict[str, str]:
        env = super().environment()
        del env["KAFSCALE_BROKER_PORT"]
        return env


class Guard:
    """What all brokers of the fleet have in common."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = Authority(folder, "authority")
        self._own = self._authority.issue("broker", file_name="broker")

    def settings(self, port: int, secured_port: int, advertised_port: int) -> dict[str, Any]:
        """Those of one broker."""
        return {
            "listeners": [
                {"name": "PLAINTEXT", "port": port},
                {
                    "name": "SASL_SSL",
                    "port": secured_port,
                    "advertisedHost": "127.0.0.1",
                    "advertisedPort": advertised_port,
                },
            ],
            "tls": {"certFile": str(self._own.certificate), "keyFile": str(self._own.key)},
            "sasl": {"sessionLifetime": "20s", "failureDelay": "50ms"},
            "authorization": {"enabled": True, "superUsers": ["User:ANONYMOUS"]},
        }

    def login(self, user: str = WORKER, password: str = PASSWORD) -> dict[str, str]:
        """How clients get in."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._authority.file),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
        }

    def prepare(self, bootstrap: str) -> None:
        """Users, rights and quotas; one of the users is removed again."""
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        strong = ScramCredentialInfo(_MECHANISM, 4096)
        for user in (WORKER, OUTSIDER, LEAVER):
            wish = UserScramCredentialUpsertion(user, strong, PASSWORD.encode())
            admin.alter_user_scram_credentials([wish])[user].result(_WITHIN_S)
        gone = UserScramCredentialDeletion(LEAVER, _MECHANISM)
        admin.alter_user_scram_credentials([gone])[LEAVER].result(_WITHIN_S)
        for made in admin.create_acls(_rights()).values():
            made.result(_WITHIN_S)
        asyncio.run(_limit(int(bootstrap.rpartition(":")[2])))


async def _limit(port: int) -> None:
    """Quotas of every kind, far above what the workers use: what they cost is there."""
    kinds = {
        "user": {
            "producer_byte_rate": 1e9,
            "consumer_byte_rate": 1e9,
            "request_percentage": 10_000.0,
            "controller_mutation_rate": 1e4,
        },
        "ip": {"connection_creation_rate": 1e4},
    }
    names = {"user": WORKER, "ip": None}
    wishes = [
        EntryData(
            [EntityData(kind, names[kind])], [OpData(key, value) for key, value in of.items()]
        )
        for kind, of in kinds.items()
    ]
    async with Caller(port) as caller:
        answer = await caller.ask(AlterClientQuotasRequest(wishes), 1)
    assert [row.error_code for row in answer.entries] == [0] * len(wishes)


def _rights() -> list[AclBinding]:
    kinds = [(ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*")]
    kinds += [(ResourceType.TRANSACTIONAL_ID, "*"), (ResourceType.BROKER, "kafka-cluster")]
    allowed = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{WORKER}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind, name in kinds
    ]
    # One that denies, so that decisions look at both kinds.
    denied = AclBinding(
        ResourceType.TOPIC,
        places.KINDS[0].topic,
        ResourcePatternType.PREFIXED,
        f"User:{OUTSIDER}",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    return [*allowed, denied]


class Intruder(Worker):
    """Tries to write: with a wrong password, as a user who is gone, as one without rights."""

    def __init__(self, guard: Guard, reach: Reach, history: History) -> None:
        super().__init__("intruder", reach, history)
        self.attempts = 0
        self._ways = {
            "a wrong password": guard.login(WORKER, "wrong"),
            "a user who is gone": guard.login(LEAVER),
            "a user without rights": guard.login(OUTSIDER),
        }

    def work(self) -> None:
        for way in itertools.cycle(self._ways):
            if self.stopping.is_set():
                return
            self._try(way)

    def _try(self, way: str) -> None:
        outcomes: list[KafkaError | None] = []
        settings = {**self.reach, **self._ways[way], "message.timeout.ms": 2000, **QUIET}
        producer = Producer(settings)
        producer.produce(
            places.KINDS[0].topic, b"intruder", on_delivery=lambda bad, _: outcomes.append(bad)
        )
        producer.flush(10)
        self.attempts += 1
        if any(problem is None for problem in outcomes):
            self.trouble(f"{way}: a record was taken")
        time.sleep(0.5)

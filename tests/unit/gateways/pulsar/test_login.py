"""Pulsar clients prove who they are as Kafka's do: by passwords and tokens."""

import asyncio
import base64
import http.client
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kafscale.settings.sections import PulsarSection
from kafscale.settings.values import Seconds
from kafscale.system import SystemClock
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    AuthChallenge,
    AuthData,
    AuthResponse,
    Command,
    Connect,
    Connected,
    Error,
    FeatureFlags,
    Lookup,
    PartitionedMetadata,
    Ping,
    Pong,
    Producer,
    ProducerSuccess,
)
from tests.support.authorizers import Denies
from tests.support.certificates import TokenIssuer
from tests.support.pulsar_wire import RawClient
from tests.unit.gateways.kafka.secured_broker import ADMIN, PASSWORD, SecuredBroker

pytestmark = pytest.mark.real_time

CPP = "Pulsar-CPP-v4.2.0"
PLAIN = b"paula:secret"


def secured(folder: Path, issuer: TokenIssuer, **more: Any) -> SecuredBroker:
    broker = SecuredBroker(folder, keys_file=issuer.keys_file, clock=SystemClock(), **more)  # type: ignore[arg-type]
    broker.config = replace(
        broker.config, pulsar=PulsarSection(port=0, http_port=0, listener="SASL")
    )
    return broker


@pytest.fixture
def issuer(tmp_path: Path) -> TokenIssuer:
    return TokenIssuer(tmp_path)


@pytest.fixture
async def broker(tmp_path: Path, issuer: TokenIssuer) -> AsyncIterator[SecuredBroker]:
    async with secured(tmp_path, issuer) as started:
        yield started


def talk(broker: SecuredBroker, act: Callable[[RawClient], Any]) -> Any:
    port = broker.endpoints["PULSAR"].port
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        return act(RawClient(sock))


def hello(method: str | None, proof: bytes | None, version: str = "test", **more: Any) -> Connect:
    return Connect(
        client_version=version,
        protocol_version=20,
        auth_method_name=method,
        auth_data=proof,
        **more,
    )


async def answered(broker: SecuredBroker, *commands: Command) -> list[Command]:
    def act(client: RawClient) -> list[Command]:
        return [client.ask(one) for one in commands]

    answers: list[Command] = await asyncio.to_thread(talk, broker, act)
    return answers


@pytest.mark.parametrize("proof", [PLAIN, f"{ADMIN}:{PASSWORD}".encode()], ids=["file", "scram"])
async def test_a_client_logs_in_by_its_password(broker: SecuredBroker, proof: bytes) -> None:
    wish = Producer(topic="t", producer_id=1, request_id=1)
    connected, created = await answered(broker, hello("basic", proof), wish)
    assert isinstance(connected, Connected)
    assert isinstance(created, ProducerSuccess)


async def test_a_client_logs_in_by_a_token(broker: SecuredBroker, issuer: TokenIssuer) -> None:
    (told,) = await answered(broker, hello("token", issuer.token("tina").encode()))
    assert isinstance(told, Connected)


@pytest.mark.parametrize(
    ("method", "proof"),
    [
        (None, None),
        ("none", None),
        ("basic", b"paula:wrong"),
        ("basic", b"stranger:secret"),
        ("basic", b"admin:wrong"),
        ("basic", b"paula"),
        ("basic", b"\xff:\xfe"),
        ("token", b"not.a.token"),
        ("token", b""),
        ("tls", None),
        ("x" * 1000, b"y"),
    ],
)
async def test_a_wrong_proof_is_refused(
    broker: SecuredBroker, method: str | None, proof: bytes | None
) -> None:
    (told,) = await answered(broker, hello(method, proof))
    assert isinstance(told, Error)
    assert told.error == ServerError.AUTHENTICATION_ERROR


async def test_the_cpp_client_hears_the_reason_with_its_first_question(
    broker: SecuredBroker,
) -> None:
    answers = await answered(
        broker,
        hello("basic", b"paula:wrong", CPP),
        PartitionedMetadata(topic="t", request_id=1),
        Lookup(topic="t", request_id=2),
        Producer(topic="t", producer_id=1, request_id=3),
    )
    assert isinstance(answers[0], Connected)
    errors = [getattr(one, "error", None) for one in answers[1:]]
    assert errors == [ServerError.AUTHENTICATION_ERROR] * 3
    assert broker.engine.topics.find("t") is None


async def test_commands_before_the_login_is_over_wait_for_it(broker: SecuredBroker) -> None:
    def act(client: RawClient) -> list[Command]:
        client.say(hello("basic", PLAIN), Ping())
        return [client.hear(), client.hear()]

    connected, pong = await asyncio.to_thread(talk, broker, act)
    assert isinstance(connected, Connected)
    assert isinstance(pong, Pong)


async def test_a_client_whose_token_expires_is_asked_for_another_one(
    tmp_path: Path, issuer: TokenIssuer
) -> None:
    def act(client: RawClient) -> Command:
        flags = FeatureFlags(supports_auth_refresh=True)
        assert isinstance(client.ask(hello("basic", PLAIN, feature_flags=flags)), Connected)
        challenge = client.hear()
        assert isinstance(challenge, AuthChallenge)
        assert challenge.challenge is not None
        assert challenge.challenge.auth_method_name == "basic"
        proof = AuthData(auth_method_name="basic", auth_data=PLAIN)
        client.say(AuthResponse(response=proof))
        return client.ask(Ping())

    async with secured(tmp_path, issuer, session_lifetime=Seconds(0.3)) as broker:
        assert isinstance(await asyncio.to_thread(talk, broker, act), Pong | AuthChallenge)


async def test_another_principal_does_not_take_over_a_connection(
    tmp_path: Path, issuer: TokenIssuer
) -> None:
    def act(client: RawClient) -> bytes:
        flags = FeatureFlags(supports_auth_refresh=True)
        client.ask(hello("basic", PLAIN, feature_flags=flags))
        client.hear()
        proof = AuthData(auth_method_name="basic", auth_data=f"{ADMIN}:{PASSWORD}".encode())
        client.say(AuthResponse(response=proof))
        try:
            return client.sock.recv(1)
        except ConnectionResetError:
            return b""

    async with secured(tmp_path, issuer, session_lifetime=Seconds(0.3)) as broker:
        assert await asyncio.to_thread(talk, broker, act) == b""


async def test_access_is_decided_for_the_principal(tmp_path: Path, issuer: TokenIssuer) -> None:
    denies = Denies()
    async with secured(tmp_path, issuer, authorizer=denies) as broker:
        wish = Producer(topic="t", producer_id=1, request_id=1)
        _, told = await answered(broker, hello("basic", PLAIN), wish)
        assert isinstance(told, Error)
        assert told.error == ServerError.AUTHORIZATION_ERROR
        assert "User:paula" in told.message


def page(broker: SecuredBroker, authorization: str = "") -> int:
    port = broker.endpoints["PULSAR-HTTP"].port
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": authorization} if authorization else {}
    asked.request("GET", "/admin/v2/clusters", headers=headers)
    status = asked.getresponse().status
    asked.close()
    return status


async def test_the_admin_api_asks_for_the_same(broker: SecuredBroker, issuer: TokenIssuer) -> None:
    basic = f"Basic {base64.b64encode(PLAIN).decode()}"
    wrong = f"Basic {base64.b64encode(b'paula:wrong').decode()}"
    told = [
        await asyncio.to_thread(page, broker, header)
        for header in ("", basic, wrong, "Basic !", f"Bearer {issuer.token('tina')}", "Bearer x")
    ]
    assert told == [401, 200, 401, 401, 200, 401]

"""What a connection may do before it is authenticated, and what every wrong step costs."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kafscale.access.scram import SCRAM_SHA_256
from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka.calls.login import MOST_FRAME_BYTES
from kafscale.settings.values import Seconds
from kafscale.testing.clock import ManualClock
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from kafscale.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafscale.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import TokenIssuer
from tests.unit.access.test_scram import final_message
from tests.unit.gateways.kafka.caller import NOW_MS, Caller
from tests.unit.gateways.kafka.secured_broker import (
    SecuredBroker,
    authenticate,
    connected,
    handshake,
    log_in,
)

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SecuredBroker]:
    async with SecuredBroker(tmp_path) as started:
        yield started


@pytest.fixture
async def caller(broker: SecuredBroker) -> AsyncIterator[Caller]:
    async with connected(broker) as one:
        yield one


async def is_served(caller: Caller) -> bool:
    return bool((await caller.ask(MetadataRequest(topics=[]), 12)).brokers)


def counted(broker: SecuredBroker, name: str) -> Iterator[str]:
    for line in broker.metrics().decode().splitlines():
        if line.startswith(f"{name}{{"):
            yield line


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_the_administrator_of_the_settings_logs_in(
    broker: SecuredBroker, caller: Caller, mechanism: str
) -> None:
    assert (await caller.ask(ApiVersionsRequest(), 0)).error_code == 0
    said = await log_in(caller, mechanism=mechanism)
    assert (said.error_code, said.session_lifetime_ms) == (0, 0)
    assert await is_served(caller)
    (line,) = counted(broker, "kafscale_authentications_total")
    assert line.endswith(f'{{mechanism="{mechanism}",outcome="ok"}} 1')


async def test_plain(caller: Caller) -> None:
    await handshake(caller, "PLAIN")
    assert (await authenticate(caller, b"\0paula\0secret", version=0)).error_code == 0
    assert await is_served(caller)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", b"\0paula\0wrong"),
        ("PLAIN", b"\0nobody\0secret"),
        ("PLAIN", b"admin\0paula\0secret"),
        ("PLAIN", b""),
        ("SCRAM-SHA-256", b""),
        ("SCRAM-SHA-256", b"n,a=root,n=admin,r=abc"),
        ("SCRAM-SHA-256", bytes(1000)),
    ],
)
async def test_a_failure_is_told_and_ends_the_connection(
    caller: Caller, mechanism: str, message: bytes
) -> None:
    await handshake(caller, mechanism)
    said = await authenticate(caller, message)
    assert said.error_code == FAILED
    assert said.error_message
    assert await caller.is_closed()


async def test_a_client_has_time_to_read_that_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python forgets an answer that comes together with the end of the connection."""
    ends_after_s: list[float] = []

    def finish_after(connection: Connection, seconds: float) -> None:
        ends_after_s.append(seconds)
        connection.finish()

    monkeypatch.setattr(Connection, "finish_after", finish_after)
    async with (
        SecuredBroker(tmp_path) as broker,
        connected(broker) as caller,
    ):
        await handshake(caller, "PLAIN")
        assert (await authenticate(caller, b"\0paula\0wrong")).error_code == FAILED
        assert await caller.is_closed()
    assert ends_after_s == [0.001]  # as long as the answer was delayed


async def test_a_wrong_user_and_a_wrong_password_are_told_the_same(broker: SecuredBroker) -> None:
    words = set()
    for user, password in (("admin", "wrong"), ("unknown", "pencil")):
        async with connected(broker) as caller:
            said = await log_in(caller, user, password)
            assert said.error_code == FAILED
            words.add(said.error_message)
            assert await caller.is_closed()
    assert len(words) == 1


async def test_a_restart_does_not_tell_which_users_there_are(broker: SecuredBroker) -> None:
    async def salt_of(user: str) -> bytes:
        async with connected(broker) as caller:
            await handshake(caller, "SCRAM-SHA-256")
            said = await authenticate(caller, f"n,,n={user},r=nonce".encode())
        return bytes(said.auth_bytes).partition(b",s=")[2]

    before = [await salt_of(user) for user in ("admin", "unknown")]
    await broker.restart()
    assert [await salt_of(user) for user in ("admin", "unknown")] == before


async def test_a_nonce_of_another_conversation_is_refused(caller: Caller) -> None:
    await handshake(caller, "SCRAM-SHA-256")
    first = b"n,,n=admin,r=abc"
    said = await authenticate(caller, first)
    final = final_message(SCRAM_SHA_256, first, said.auth_bytes, "pencil", nonce="abcother")
    assert (await authenticate(caller, final)).error_code == FAILED
    assert await caller.is_closed()


@pytest.mark.parametrize("version", [1, 12])
async def test_other_requests_close_the_connection(caller: Caller, version: int) -> None:
    caller.send(MetadataRequest(topics=[]), version)
    assert await caller.is_closed()


async def test_other_requests_during_the_conversation_close_the_connection(caller: Caller) -> None:
    await handshake(caller, "PLAIN")
    caller.send(ApiVersionsRequest(), 0)
    assert await caller.is_closed()


async def test_requests_that_were_sent_behind_a_failure_do_nothing(
    broker: SecuredBroker, caller: Caller
) -> None:
    await handshake(caller, "PLAIN")
    caller.send(SaslAuthenticateRequest(b"\0paula\0wrong"), 2)
    caller.send(MetadataRequest(topics=[]), 12)
    assert (await caller.answer()).error_code == FAILED
    assert await caller.is_closed()
    assert 'api="Metadata"' not in broker.metrics().decode()


async def test_requests_that_were_sent_behind_a_login_are_served(caller: Caller) -> None:
    caller.send(SaslHandshakeRequest("PLAIN"), 1)
    caller.send(SaslAuthenticateRequest(b"\0paula\0secret"), 2)
    caller.send(MetadataRequest(topics=[]), 12)
    assert [(await caller.answer()).error_code for _ in range(2)] == [0, 0]
    assert (await caller.answer()).brokers


async def test_an_unknown_mechanism_is_answered_with_those_there_are(caller: Caller) -> None:
    said = await handshake(caller, "GSSAPI")
    assert said.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert said.mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
    assert await caller.is_closed()


async def test_a_mechanism_cannot_be_changed_midway(caller: Caller) -> None:
    await handshake(caller, "SCRAM-SHA-256")
    assert (await handshake(caller, "PLAIN")).error_code == ILLEGAL
    assert await caller.is_closed()


async def test_a_message_without_a_mechanism_is_refused(caller: Caller) -> None:
    assert (await authenticate(caller, b"\0paula\0secret")).error_code == ILLEGAL
    assert await caller.is_closed()


async def test_another_message_after_the_login_is_refused_and_changes_nothing(
    caller: Caller,
) -> None:
    await log_in(caller)
    assert (await authenticate(caller, b"\0paula\0secret")).error_code == ILLEGAL
    assert (await handshake(caller, "PLAIN")).error_code == ILLEGAL
    assert await is_served(caller)


async def ask_raw(caller: Caller, message: bytes) -> bytes:
    caller.writer.write(struct.pack(">i", len(message)) + message)
    (size,) = struct.unpack(">i", await caller.reader.readexactly(4))
    return await caller.reader.readexactly(size)


async def test_frames_without_a_header_after_the_first_version_of_the_handshake(
    broker: SecuredBroker, caller: Caller
) -> None:
    await handshake(caller, "SCRAM-SHA-256", version=0)
    first = b"n,,n=admin,r=abc"
    said = await ask_raw(caller, first)
    final = await ask_raw(caller, final_message(SCRAM_SHA_256, first, said, "pencil"))
    assert final.startswith(b"v=")
    assert await is_served(caller)
    async with connected(broker) as other:
        await handshake(other, "PLAIN", version=0)
        other.writer.write(struct.pack(">i", 10) + b"\0paula\0bad")
        assert await other.is_closed()


@pytest.mark.parametrize("size", [MOST_FRAME_BYTES + 1, 524_289, 2**31 - 1])
async def test_a_large_frame_is_not_taken_before_the_login(caller: Caller, size: int) -> None:
    caller.writer.write(struct.pack(">i", size) + bytes(100))
    assert await caller.is_closed()


async def test_a_large_frame_is_taken_after_the_login(caller: Caller) -> None:
    await log_in(caller)
    topics = [f"t{number:06}" + "x" * 200 for number in range(1000)]
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in topics], False)
    assert len((await caller.ask(request, 9)).topics) == len(topics)


async def one_more(caller: Caller) -> object:
    """The next answer, or how the connection ended."""
    try:
        return await caller.answer()
    except (asyncio.IncompleteReadError, ConnectionError) as ended:
        return ended


async def test_very_many_requests_before_the_login_are_too_much(caller: Caller) -> None:
    for _ in range(100):
        caller.send(ApiVersionsRequest(), 0)
    answered = 0
    while not isinstance(caught := await one_more(caller), Exception):
        answered += 1
    assert answered < 100
    assert isinstance(caught, asyncio.IncompleteReadError | ConnectionError)


async def test_a_connection_that_does_not_log_in_is_ended(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with (
        SecuredBroker(tmp_path, clock=clock) as broker,
        connected(broker) as silent,
        connected(broker) as served,
    ):
        await log_in(served)
        await handshake(silent, "PLAIN")
        clock.advance_ms(1000 * 31.0)
        broker.connections.end_overdue()
        assert await silent.is_closed()
        assert await is_served(served)


async def test_sessions_that_end_are_begun_again_on_the_same_connection(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with (
        SecuredBroker(tmp_path, clock=clock, session_lifetime=Seconds(60)) as broker,
        connected(broker) as caller,
    ):
        assert (await log_in(caller)).session_lifetime_ms == 60_000
        clock.advance_ms(1000 * 59.0)
        assert (await log_in(caller)).session_lifetime_ms == 60_000
        clock.advance_ms(1000 * 59.0)
        assert await is_served(caller)
        clock.advance_ms(1000 * 2.0)
        caller.send(MetadataRequest(topics=[]), 12)
        assert await caller.is_closed()


@pytest.mark.parametrize(
    ("mechanism", "message"), [("PLAIN", b"\0paula\0secret"), ("SCRAM-SHA-512", b"")]
)
async def test_a_session_cannot_become_another_users(
    tmp_path: Path, mechanism: str, message: bytes
) -> None:
    clock = ManualClock(NOW_MS)
    users = "paula=secret\nadmin=pencil\n"
    async with (
        SecuredBroker(tmp_path, clock=clock, users=users, session_lifetime=Seconds(60)) as broker,
        connected(broker) as caller,
    ):
        await handshake(caller, "PLAIN")
        await authenticate(caller, b"\0admin\0pencil")
        clock.advance_ms(1000 * 2.0)
        said = await handshake(caller, mechanism)
        if mechanism == "PLAIN":
            said = await authenticate(caller, message)
        assert said.error_code in (FAILED, ILLEGAL)
        assert await caller.is_closed()


async def test_tokens_of_an_issuer(tmp_path: Path) -> None:
    issuer = TokenIssuer(tmp_path)
    clock = ManualClock(NOW_MS)
    now_s = NOW_MS / 1000

    def message(token: str) -> bytes:
        return f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    async with SecuredBroker(tmp_path, clock=clock, keys_file=issuer.keys_file) as broker:
        async with connected(broker) as caller:
            await handshake(caller, "OAUTHBEARER")
            token = issuer.token("olga", iat=now_s, exp=now_s + 100)
            said = await authenticate(caller, message(token))
            assert (said.error_code, said.session_lifetime_ms) == (0, 100_000)
            assert await is_served(caller)
        async with connected(broker) as caller:
            await handshake(caller, "OAUTHBEARER")
            said = await authenticate(caller, message(issuer.token("olga", iat=1, exp=2)))
            assert said.error_code == 0
            assert json.loads(said.auth_bytes)["status"] == "invalid_token"
            said = await authenticate(caller, b"\x01")
            assert said.error_code == FAILED
            assert "expired" in said.error_message
            assert await caller.is_closed()
        issuer.rotate("second")
        clock.advance_ms(1000 * 2.0)
        async with connected(broker) as caller:
            await handshake(caller, "OAUTHBEARER")
            token = issuer.token("olga", iat=now_s, exp=now_s + 100)
            assert (await authenticate(caller, message(token))).auth_bytes == b""


@pytest.mark.parametrize("says_more", [True, False])
async def test_a_token_that_is_refused_is_one_failure_whether_its_client_says_more_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says_more: bool
) -> None:
    issuer = TokenIssuer(tmp_path)
    lines: list[dict[str, object]] = []
    async with SecuredBroker(tmp_path, keys_file=issuer.keys_file) as broker:
        monkeypatch.setattr(broker.connections._audit, "_write_line", lines.append)
        async with connected(broker) as caller:
            await handshake(caller, "OAUTHBEARER")
            token = issuer.token("olga", iat=1, exp=2)
            said = await authenticate(caller, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
            assert json.loads(said.auth_bytes)["status"] == "invalid_token"
            assert [(one["kind"], one["operation"]) for one in lines] == [
                ("authentication_failed", "OAUTHBEARER")
            ]
            if says_more:
                assert (await authenticate(caller, b"\x01")).error_code == FAILED
                assert await caller.is_closed()
        assert len(lines) == 1
        (counted_once,) = counted(broker, "kafscale_authentications_total")
        assert counted_once.endswith('{mechanism="OAUTHBEARER",outcome="failed"} 1')


async def test_passwords_that_change_are_read_again(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with SecuredBroker(tmp_path, clock=clock) as broker:
        (tmp_path / "users").write_text("paula=another-one\n")
        clock.advance_ms(1000 * 1.5)
        for password, code in ((b"secret", FAILED), (b"another-one", 0)):
            async with connected(broker) as caller:
                await handshake(caller, "PLAIN")
                assert (await authenticate(caller, b"\0paula\0" + password)).error_code == code
        (tmp_path / "users").write_text("no line with the sign that divides\n")
        clock.advance_ms(1000 * 1.5)
        async with connected(broker) as caller:
            await handshake(caller, "PLAIN")
            assert (await authenticate(caller, b"\0paula\0another-one")).error_code == 0

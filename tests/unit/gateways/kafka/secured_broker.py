"""A broker in memory whose one listener has SASL, and clients that log in step by step."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kafscale.access.scram import SCRAM_MECHANISMS
from kafscale.model.security.access import Authorizer
from kafscale.settings.listeners import Listeners, ListenerSetting
from kafscale.settings.security import OauthSection, SaslSection
from kafscale.settings.values import Seconds
from kafscale.testing.clock import ManualClock
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.access.test_scram import final_message
from tests.unit.gateways.kafka.caller import NOW_MS, Caller

ADMIN, PASSWORD = "admin", "pencil"
ALL = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")


class SecuredBroker(InProcessBroker):
    """Its administrator is `admin`; `users` may log in by PLAIN."""

    def __init__(
        self,
        folder: Path,
        *,
        users: str = "paula=secret\n",
        keys_file: Path | None = None,
        clock: ManualClock | None = None,
        authorizer: Authorizer | None = None,
        **sasl: Any,
    ) -> None:
        (folder / "admin").write_text(f"{PASSWORD}\n")
        (folder / "users").write_text(users)
        (folder / "token-secret").write_text("0123456789abcdef")
        mechanisms = ALL if keys_file is not None else ALL[:3]
        section = SaslSection(
            mechanisms=mechanisms,
            users_file=str(folder / "users"),
            allow_plain_without_tls=True,
            admin_user=ADMIN,
            admin_password_file=str(folder / "admin"),
            token_secret_file=str(folder / "token-secret"),
            failure_delay=Seconds(0.001),
            oauth=OauthSection(jwks_file=str(keys_file) if keys_file else None),
            **sasl,
        )
        row = ListenerSetting(name="SASL", protocol="SASL_PLAINTEXT", port=0)
        config = replace(FOR_TESTS, listeners=Listeners([row]), sasl=section)
        super().__init__(config=config, clock=clock or ManualClock(NOW_MS), authorizer=authorizer)


@asynccontextmanager
async def connected(broker: InProcessBroker) -> AsyncIterator[Caller]:
    async with Caller(broker.port) as caller:
        yield caller


async def handshake(caller: Caller, mechanism: str, version: int = 1) -> Any:
    return await caller.ask(SaslHandshakeRequest(mechanism), version)


async def authenticate(caller: Caller, message: bytes, version: int = 2) -> Any:
    return await caller.ask(SaslAuthenticateRequest(message), version)


async def log_in(
    caller: Caller,
    user: str = ADMIN,
    password: str = PASSWORD,
    mechanism: str = "SCRAM-SHA-256",
    extension: str = "",
) -> Any:
    """The last answer of a SCRAM login."""
    assert (await handshake(caller, mechanism)).error_code == 0
    first = f"n,,n={user},r=clientnonce{extension}".encode()
    said = await authenticate(caller, first)
    if said.error_code:
        return said
    return await authenticate(
        caller, final_message(SCRAM_MECHANISMS[mechanism], first, said.auth_bytes, password)
    )

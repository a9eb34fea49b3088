"""Delegation tokens of a fleet, in the metadata store and at every broker.

Here: making, finding and changing them, and removing those that have expired.
Next door: what a token is and who may do what with it (access/delegation_tokens.py), the requests
(gateways/kafka/apis/create_delegation_token.py and its neighbours).
"""

import asyncio
import base64
import hmac
from collections.abc import Sequence
from typing import Final

import msgspec

from kafscale.access import delegation_tokens
from kafscale.access.delegation_tokens import DelegationToken, password_of, token_hmac
from kafscale.access.scram import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential_of_password,
)
from kafscale.engine.access.watched_rows import WatchedRows
from kafscale.metadata import keys
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import CorruptObject, InvalidRequest, TokenNotFound, TokensDisabled
from kafscale.model.security.access import Principal

_SALT_BYTES: Final = 16
_MOST_REMOVED: Final = 100  # expired tokens, at a time
MOST_OF_ONE: Final = 10_000  # tokens that one client has asked for: every broker holds all of them


class Tokens:
    """The delegation tokens of a fleet."""

    def __init__(
        self, metadata: MetadataStore, clock: Clock, dice: Dice, secret: bytes | None
    ) -> None:
        """`secret`: the same at every broker; None: there are no tokens."""
        self.rows: WatchedRows[DelegationToken] = WatchedRows(
            metadata, keys.TOKENS, _decode, msgspec.json.encode
        )
        self._clock = clock
        self._dice = dice
        self._secret = secret

    def find_credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential | None:
        """What a token logs in with, None if it has expired or is not there."""
        token = self.find(token_id)
        return None if token is None else token.credentials.get(mechanism.name)

    def find(self, token_id: str) -> DelegationToken | None:
        """A token that has not expired."""
        token = self.rows.rows.get(keys.segment(token_id)) if self._secret else None
        if token is None or token.is_expired(self._clock.now_ms()):
            return None
        return token

    def list_all(self) -> list[DelegationToken]:
        """All tokens that have not expired. Raises TokensDisabled."""
        self._require_secret()
        now_ms = self._clock.now_ms()
        return [token for token in self.rows.rows.values() if not token.is_expired(now_ms)]

    def hmac_of(self, token: DelegationToken) -> bytes:
        """What a client shows to have the token renewed or expired."""
        return token_hmac(self._require_secret(), token.token_id)

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: Sequence[Principal],
        asked_ms: int,
    ) -> DelegationToken:
        """Make a token. Raises TokensDisabled, InvalidRequest."""
        secret = self._require_secret()
        if sum(token.requester == requester for token in self.list_all()) >= MOST_OF_ONE:
            raise InvalidRequest(f"a client has up to {MOST_OF_ONE} tokens that have not expired")
        token_id = base64.urlsafe_b64encode(self._dice.token(16)).decode().rstrip("=")
        token = delegation_tokens.new_token(
            token_id, owner, requester, renewers, asked_ms, self._clock.now_ms()
        )
        password = password_of(token_hmac(secret, token_id))
        salts = {name: self._dice.token(_SALT_BYTES) for name in SCRAM_MECHANISMS}
        credentials = await asyncio.to_thread(_credentials, password, salts)
        token = msgspec.structs.replace(token, credentials=credentials)
        await self._remove_expired()
        await self.rows.write({keys.segment(token_id): token})
        return token

    async def renew(self, shown: bytes, principal: Principal, period_ms: int) -> int:
        """Let a token live longer; gives its new expiry. Raises TokenError."""
        token = self._shown(shown)
        now_ms = self._clock.now_ms()
        new = delegation_tokens.renewed(token, principal, period_ms, now_ms)
        await self.rows.write({keys.segment(token.token_id): new})
        return new.expires_ms

    async def expire(self, shown: bytes, principal: Principal, period_ms: int) -> int:
        """Change a token's expiry, or end it; gives its new expiry. Raises TokenError."""
        token = self._shown(shown)
        now_ms = self._clock.now_ms()
        new = delegation_tokens.expired(token, principal, period_ms, now_ms)
        await self.rows.write({keys.segment(token.token_id): new})
        return now_ms if new is None else new.expires_ms

    def _shown(self, shown: bytes) -> DelegationToken:
        secret = self._require_secret()
        for token in self.rows.rows.values():
            if hmac.compare_digest(token_hmac(secret, token.token_id), shown):
                return token
        raise TokenNotFound("there is no such token")

    def _require_secret(self) -> bytes:
        if not self._secret:
            raise TokensDisabled("the broker has no secret for delegation tokens")
        return self._secret

    async def _remove_expired(self) -> None:
        """Forget what has expired, whenever a token is made, so that rows do not pile up."""
        now_ms = self._clock.now_ms()
        gone = [name for name, token in self.rows.rows.items() if token.is_expired(now_ms)]
        if gone:
            await self.rows.write(dict.fromkeys(gone[:_MOST_REMOVED]))


def _credentials(password: str, salts: dict[str, bytes]) -> dict[str, ScramCredential]:
    return {
        name: credential_of_password(SCRAM_MECHANISMS[name], password, salt)
        for name, salt in salts.items()
    }


def _decode(raw: bytes) -> DelegationToken:
    try:
        return msgspec.json.decode(raw, type=DelegationToken)
    except msgspec.DecodeError as problem:
        raise CorruptObject(f"not a delegation token: {problem}") from None

"""Delegation tokens: short-lived secrets by which others act for an authenticated client.

Here: what a token is, who may do what with it and until when. A token logs in by SCRAM: its id is
the user, and its HMAC, which the broker can always make again from the id, is the password.
Next door: where tokens are kept (engine/access/tokens.py), the conversation (scram.py), the
requests (gateways/kafka/apis/create_delegation_token.py and its neighbours).
"""

import base64
import hmac
from collections.abc import Sequence
from typing import Final

import msgspec

from kafscale.access.scram import ScramCredential
from kafscale.model.errors import TokenExpired, TokenOwnerMismatch
from kafscale.model.security.access import Principal

LONGEST_MS: Final = 7 * 24 * 3600 * 1000  # as Kafka's delegation.token.max.lifetime.ms
USUAL_MS: Final = 24 * 3600 * 1000  # as Kafka's delegation.token.expiry.time.ms
_HASH: Final = "sha512"


class DelegationToken(msgspec.Struct, frozen=True, kw_only=True):
    """One token."""

    token_id: str
    owner: Principal  # a client that logs in with the token is this one
    requester: Principal
    renewers: tuple[Principal, ...] = ()
    issued_ms: int
    expires_ms: int
    latest_ms: int  # it cannot be renewed beyond this
    credentials: dict[str, ScramCredential] = {}  # by mechanism

    def is_expired(self, now_ms: int) -> bool:
        """Whether it is worth nothing any more."""
        return now_ms >= min(self.expires_ms, self.latest_ms)

    def is_of(self, principal: Principal) -> bool:
        """Whether this principal may renew, expire and see it."""
        return principal == self.owner or principal in self.renewers


def token_hmac(secret: bytes, token_id: str) -> bytes:
    """What a client shows to have the token renewed or expired."""
    return hmac.digest(secret, token_id.encode(), _HASH)


def password_of(token_id_hmac: bytes) -> str:
    """What a client logs in with."""
    return base64.b64encode(token_id_hmac).decode()


def new_token(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Sequence[Principal],
    asked_ms: int,
    now_ms: int,
) -> DelegationToken:
    """A token that lives as long as asked for, up to a limit; below zero: up to the limit."""
    lifetime_ms = LONGEST_MS if asked_ms < 0 else min(asked_ms, LONGEST_MS)
    latest_ms = now_ms + lifetime_ms
    return DelegationToken(
        token_id=token_id,
        owner=owner,
        requester=requester,
        renewers=tuple(renewers),
        issued_ms=now_ms,
        expires_ms=min(latest_ms, now_ms + USUAL_MS),
        latest_ms=latest_ms,
    )


def renewed(
    token: DelegationToken, principal: Principal, period_ms: int, now_ms: int
) -> DelegationToken:
    """The token with a later expiry. Raises TokenOwnerMismatch, TokenExpired."""
    _check(token, principal, now_ms)
    period_ms = USUAL_MS if period_ms < 0 else period_ms
    return msgspec.structs.replace(token, expires_ms=min(token.latest_ms, now_ms + period_ms))


def expired(
    token: DelegationToken, principal: Principal, period_ms: int, now_ms: int
) -> DelegationToken | None:
    """The token with another expiry; a period below zero ends it at once.

    Raises TokenOwnerMismatch, TokenExpired.
    """
    if period_ms < 0:
        if not token.is_of(principal):
            raise TokenOwnerMismatch("the client is neither owner nor renewer of the token")
        return None
    _check(token, principal, now_ms)
    return msgspec.structs.replace(token, expires_ms=min(token.latest_ms, now_ms + period_ms))


def _check(token: DelegationToken, principal: Principal, now_ms: int) -> None:
    if not token.is_of(principal):
        raise TokenOwnerMismatch("the client is neither owner nor renewer of the token")
    if token.is_expired(now_ms):
        raise TokenExpired("the token has expired")

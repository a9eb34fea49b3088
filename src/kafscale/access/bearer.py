"""SASL OAUTHBEARER (RFC 7628): a client shows a token that an issuer has signed.

Here: the one message, and whether a token is good: signature, issuer, audience, scope, times.
Next door: where the issuer's keys come from (engine/access/signing_keys.py).
Never here: own cryptography. joserfc checks signatures. A key checks the algorithms of its own type
alone: a token that is signed with a shared secret is good only if the secret is among the keys.
"""

import binascii
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from kafscale.model.errors import AuthenticationFailed

MOST_TOKEN_BYTES: Final = 64 << 10
ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {  # by the type of the key
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
    "oct": ("HS256", "HS384", "HS512"),
}
_SECRET: Final = "oct"
_LEAST_SECRET_BYTES: Final = 32
_MESSAGE: Final = re.compile(
    r"(?:n|y|p=[^,]*),(?:a=(?P<authzid>[^,]*))?,\x01"
    r"(?:[A-Za-z]+=[^\x01]*\x01)*?"
    r"auth=(?P<scheme>[A-Za-z]+) +(?P<token>[-._~+/A-Za-z0-9]+=*)\x01"
    r"(?:[A-Za-z]+=[^\x01]*\x01)*"
    r"\x01"
)


class UnknownKey(AuthenticationFailed):
    """A token is signed with a key that is not among those known: the issuer may have new ones."""


class TokenRules(NamedTuple):
    """What a token must say."""

    issuer: str | None
    audiences: tuple[str, ...]  # one of them; empty: any
    scopes: tuple[str, ...]  # all of them
    principal_claim: str
    scope_claim: str
    skew_s: float  # by how much the clocks of issuer and broker may differ


class BearerIdentity(NamedTuple):
    """Who a token is about, and until when it is good."""

    user: str
    expires_ms: int | None  # None: it does not expire


def read_bearer(message: bytes) -> tuple[str, str | None]:
    """The token of the client's first message, and who it wants to act as.

    Raises AuthenticationFailed.
    """
    if len(message) > 2 * MOST_TOKEN_BYTES:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message: too long")
    try:
        found = _MESSAGE.fullmatch(message.decode("utf-8"))
    except UnicodeDecodeError:
        found = None
    if found is None or found["scheme"].lower() != "bearer":
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message")
    return found["token"], found["authzid"]


def read_keys(document: bytes, *, with_secrets: bool = False) -> KeySet:
    """The issuer's keys, from a JWKS document. Raises ValueError.

    `with_secrets`: it may have secrets that issuer and broker share, too.
    """
    try:
        found: Any = msgspec.json.decode(document, type=dict[str, Any])
        keys = KeySet.import_key_set(found)
    except (msgspec.DecodeError, JoseError, ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"not a set of public keys (JWKS): {problem}") from None
    for key in keys.keys:
        if key.key_type == _SECRET:
            if not with_secrets:
                raise ValueError("not a set of public keys (JWKS): it has a secret")
            secret = key.raw_value
            if isinstance(secret, bytes) and len(secret) < _LEAST_SECRET_BYTES:
                raise ValueError(f"a secret key has {_LEAST_SECRET_BYTES} bytes or more")
    return keys


def check_token(
    token: str, keys: KeySet, rules: TokenRules, now_ms: int, *, must_expire: bool = True
) -> BearerIdentity:
    """Who the token is about. Raises AuthenticationFailed, of which UnknownKey is one case."""
    if len(token) > MOST_TOKEN_BYTES:
        raise AuthenticationFailed("the token is too long")
    key = _key_for(token, keys)
    try:
        claims = jwt.decode(token, key, algorithms=list(ALGORITHMS.get(key.key_type, ()))).claims
    except (JoseError, ValueError, KeyError, TypeError, binascii.Error):
        # What is wrong with a signature is not told.
        raise AuthenticationFailed("the token's signature is not valid") from None
    expires_s = _check_times(claims, rules.skew_s, now_ms / 1000, must_expire)
    _check_parties(claims, rules)
    user = claims.get(rules.principal_claim)
    if not isinstance(user, str) or not user:
        raise AuthenticationFailed(f"the token has no claim {rules.principal_claim!r}")
    return BearerIdentity(user, None if expires_s is None else int(expires_s * 1000))


def _key_for(token: str, keys: KeySet) -> Key:
    """The key that the token names; the only one if it names none."""
    try:
        header: Mapping[str, Any] = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, KeyError, TypeError, binascii.Error):
        raise AuthenticationFailed("the token is not a signed JSON web token") from None
    if not any(header.get("alg") in ALGORITHMS.get(key.key_type, ()) for key in keys.keys):
        raise AuthenticationFailed("the token is not signed with an algorithm of the keys")
    wanted = header.get("kid")
    if wanted is None and len(keys.keys) == 1:
        return keys.keys[0]
    for key in keys.keys:
        if wanted is not None and key.kid == wanted:
            return key
    raise UnknownKey("the token is signed with an unknown key")


def _check_times(
    claims: Mapping[str, Any], skew_s: float, now_s: float, must_expire: bool
) -> float | None:
    expires_s = _number(claims, "exp")
    if expires_s is None and must_expire:
        raise AuthenticationFailed("the token has no time of expiry")
    if expires_s is not None and expires_s + skew_s <= now_s:
        raise AuthenticationFailed("the token has expired")
    for name in ("nbf", "iat"):
        begin_s = _number(claims, name)
        if begin_s is not None and begin_s - skew_s > now_s:
            raise AuthenticationFailed("the token is not valid yet")
    return expires_s


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AuthenticationFailed(f"the token's claim {name!r} is not a number")
    if not math.isfinite(value) or abs(value) > 2**53:
        raise AuthenticationFailed(f"the token's claim {name!r} is not a time")
    return float(value)


def _check_parties(claims: Mapping[str, Any], rules: TokenRules) -> None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise AuthenticationFailed("the token is from another issuer")
    if rules.audiences and not set(_texts(claims.get("aud"))) & set(rules.audiences):
        raise AuthenticationFailed("the token is for another audience")
    if not set(rules.scopes) <= set(_words(claims.get(rules.scope_claim))):
        raise AuthenticationFailed("the token has not the scope that is required")


def _texts(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return (value,)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else ()


def _words(value: object) -> Sequence[str]:
    return value.split() if isinstance(value, str) else _texts(value)

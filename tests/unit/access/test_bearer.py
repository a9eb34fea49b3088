import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from kafscale.access.bearer import (
    MOST_TOKEN_BYTES,
    TokenRules,
    UnknownKey,
    check_token,
    read_bearer,
    read_keys,
)
from kafscale.model.errors import AuthenticationFailed

NOW_S = 1_700_000_000
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
KEYS = read_keys(json.dumps(KeySet([RSA, EC]).as_dict(private=False)).encode())
RULES = TokenRules("https://issuer", ("kafscale",), ("produce",), "sub", "scope", 30.0)
CLAIMS = {
    "iss": "https://issuer",
    "aud": ["other", "kafscale"],
    "scope": "consume produce",
    "sub": "alice",
    "exp": NOW_S + 60,
}


def signed(key: Any = RSA, alg: str = "RS256", kid: str | None = "rsa", **change: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **change}.items() if value is not None}
    header = {"alg": alg, **({"kid": kid} if kid else {})}
    return jwt.encode(header, claims, key, algorithms=[alg])


def check(token: str, keys: KeySet = KEYS, now_s: float = NOW_S) -> Any:
    return check_token(token, keys, RULES, int(now_s * 1000))


def test_good_tokens() -> None:
    assert check(signed()) == ("alice", (NOW_S + 60) * 1000)
    assert check(signed(EC, "ES256", "ec", scope=["produce"], aud="kafscale")).user == "alice"
    assert check(signed(), now_s=NOW_S + 89).user == "alice", "clocks may differ a little"


def test_a_token_without_key_id_fits_where_there_is_one_key() -> None:
    assert check(signed(kid=None), KeySet([RSA])).user == "alice"
    with pytest.raises(UnknownKey):
        check(signed(kid=None))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"iss": "https://other"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {"kafscale": 1}}, "audience"),
        ({"scope": "consume"}, "scope"),
        ({"scope": 7}, "scope"),
        ({"sub": None}, "no claim"),
        ({"sub": ""}, "no claim"),
        ({"sub": ["alice"]}, "no claim"),
        ({"exp": None}, "no time of expiry"),
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": "soon"}, "not a number"),
        ({"exp": True}, "not a number"),
        ({"exp": 1e300}, "not a time"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"iat": NOW_S + 31}, "not valid yet"),
    ],
)
def test_what_a_token_must_say(change: dict[str, Any], match: str) -> None:
    with pytest.raises(AuthenticationFailed, match=match):
        check(signed(**change))


def unsigned_token(alg: str) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': alg, 'kid': 'rsa'})}.{part(CLAIMS)}."


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", ""])
def test_tokens_that_are_not_signed_are_refused(alg: str) -> None:
    with pytest.raises(AuthenticationFailed, match="not signed"):
        check(unsigned_token(alg))


def test_a_public_key_is_no_shared_secret() -> None:
    """The known attack: sign with the text of the public key, and call it HMAC."""
    unsigned = unsigned_token("HS256").removesuffix(".")
    made = hmac.digest(RSA.as_pem(private=False), unsigned.encode(), "sha256")
    with pytest.raises(AuthenticationFailed, match="not signed"):
        check(f"{unsigned}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}")


def test_signatures_of_others() -> None:
    other = RSAKey.generate_key(2048, {"kid": "rsa"})
    with pytest.raises(AuthenticationFailed, match="signature"):
        check(signed(other))
    with pytest.raises(UnknownKey):
        check(signed(other, kid="new"))
    with pytest.raises(AuthenticationFailed, match="signature"):
        check(signed(EC, "ES256", "rsa"))
    head, _, signature = signed().split(".")
    forged = base64.urlsafe_b64encode(json.dumps({**CLAIMS, "sub": "admin"}).encode()).decode()
    with pytest.raises(AuthenticationFailed, match="signature"):
        check(f"{head}.{forged.rstrip('=')}.{signature}")


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c", "....", "eyJhbGciOiJSUzI1NiJ9.e30"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(AuthenticationFailed):
        check(token)


def test_huge_tokens_are_not_looked_at() -> None:
    with pytest.raises(AuthenticationFailed, match="too long"):
        check("a" * (MOST_TOKEN_BYTES + 1))


def test_messages() -> None:
    assert read_bearer(b"n,,\x01auth=Bearer abc.d-e\x01\x01") == ("abc.d-e", None)
    assert read_bearer(b"n,a=bob,\x01host=x\x01auth=bearer t\x01traceId=1\x01\x01") == ("t", "bob")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer abc",
        b"\xff",
        b"n,,\x01auth=Bearer " + b"a" * (3 * MOST_TOKEN_BYTES) + b"\x01\x01",
    ],
)
def test_bad_messages(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        read_bearer(message)


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": 7}', b'{"keys": [{"kty": 1}]}'])
def test_what_is_no_set_of_keys(document: bytes) -> None:
    with pytest.raises(ValueError, match="JWKS"):
        read_keys(document)

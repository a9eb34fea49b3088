"""SASL PLAIN (RFC 4616): a client sends its name and its password.

Here: the one message, and comparing passwords. Next door: where the passwords come from
(engine/access/password_file.py).
"""

import hashlib
import hmac
from typing import Final, NamedTuple

from kafscale.model.errors import AuthenticationFailed

_PARTS: Final = 3
_NO_PASSWORD: Final = ""


class PlainMessage(NamedTuple):
    """Who a client says it is, and its proof."""

    user: str
    password: str


def read_plain(message: bytes) -> PlainMessage:
    """Read `authzid NUL user NUL password`. Raises AuthenticationFailed."""
    try:
        parts = message.decode("utf-8").split("\0")
    except UnicodeDecodeError:
        raise AuthenticationFailed("Invalid SASL/PLAIN response: not UTF-8") from None
    if len(parts) != _PARTS:
        raise AuthenticationFailed(
            f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
        )
    authzid, user, password = parts
    if not user:
        raise AuthenticationFailed("Authentication failed: username not specified")
    if not password:
        raise AuthenticationFailed("Authentication failed: password not specified")
    if authzid and authzid != user:
        raise AuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )
    return PlainMessage(user, password)


def check_password(expected: str | None, given: str) -> None:
    """Raise AuthenticationFailed unless they are the same. None: there is no such user.

    Both cases take the same time, and the time does not depend on where the texts differ.
    """
    if not is_password(expected, given):
        raise AuthenticationFailed("Authentication failed: Invalid username or password")


def is_password(expected: str | None, given: str) -> bool:
    """Whether they are the same, in the same time whatever they are."""
    known = _digest(_NO_PASSWORD if expected is None else expected)
    is_same = hmac.compare_digest(known, _digest(given))
    return is_same and expected is not None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()

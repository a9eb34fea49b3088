"""Whole logins as the broker sees them: the right password, a wrong one, a user who is not there.

Everything that a client sends is made beforehand: running one is the broker's work alone.
"""

import base64
from collections.abc import Callable

from kafscale.access.plain import check_password, read_plain
from kafscale.access.scram import (
    SCRAM_MECHANISMS,
    ScramExchange,
    ScramMechanism,
    credential_of_password,
)
from kafscale.model.errors import AuthenticationFailed
from tests.unit.access.test_scram import NONCE, SALT, final_message

CASES = ("right", "wrong password", "wrong user")
_USERS = {"right": "user", "wrong password": "user", "wrong user": "none"}
Converse = Callable[[str], bool]  # a case; whether the client got in


def _scram(mechanism: ScramMechanism) -> Converse:
    kept = {"user": credential_of_password(mechanism, "pencil", SALT)}

    def exchange() -> ScramExchange:
        return ScramExchange(mechanism, NONCE, lambda user, _: kept.get(user), b"decoys")

    firsts = {case: f"n,,n={user},r=rOprNGfwEbeRWgbNEkqO".encode() for case, user in _USERS.items()}
    finals = {
        case: final_message(
            mechanism, first, exchange().step(first), "pencil" if case == "right" else "chalks"
        )
        for case, first in firsts.items()
    }

    def converse(case: str) -> bool:
        mine = exchange()
        mine.step(firsts[case])
        try:
            mine.step(finals[case])
        except AuthenticationFailed:
            return False
        return mine.is_over

    return converse


def _plain() -> Converse:
    kept = {"user": base64.b64encode(SALT).decode()}
    messages = {
        case: f"\0{user}\0{kept['user'] if case == 'right' else 'x' * 24}".encode()
        for case, user in _USERS.items()
    }

    def converse(case: str) -> bool:
        said = read_plain(messages[case])
        try:
            check_password(kept.get(said.user), said.password)
        except AuthenticationFailed:
            return False
        return True

    return converse


SCRAM_AND_PLAIN: dict[str, Converse] = {
    **{name: _scram(mechanism) for name, mechanism in SCRAM_MECHANISMS.items()},
    "PLAIN": _plain(),
}

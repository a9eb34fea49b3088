"""How clients prove to the proxy who they are: users of a file, by PLAIN or by SCRAM.

Next door: the mechanisms' own rules (access/), the states of a login
(gateways/kafka/calls/login.py).
"""

import base64
from pathlib import Path
from typing import Final

from kafscale.access.plain import check_password, read_plain
from kafscale.access.scram import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    credential_of_password,
)
from kafscale.engine.access.authentication import PLAIN, ClientIdentity, Exchange, SaslReply
from kafscale.engine.access.password_file import read_passwords
from kafscale.model.clock import Dice
from kafscale.model.security.access import Principal
from kafscale.settings.values import ConfigError

_NONCE_BYTES: Final = 18
_SALT_BYTES: Final = 16


class FileUsers:
    """Implements gateways.kafka.calls.login.Mechanisms for the users of a file."""

    def __init__(self, path: str, mechanisms: list[str], dice: Dice) -> None:
        """Read the file. Raises ConfigError."""
        try:
            self._passwords = read_passwords(Path(path))
        except (OSError, ValueError) as problem:
            raise ConfigError(f"users_file: {problem}") from None
        self._dice = dice
        self._secret = dice.token(32)
        self._credentials: dict[tuple[str, str], ScramCredential] = {
            (name, user): credential_of_password(
                SCRAM_MECHANISMS[name], password, dice.token(_SALT_BYTES)
            )
            for name in mechanisms
            if name in SCRAM_MECHANISMS
            for user, password in self._passwords.items()
        }

    def begin(self, mechanism: str) -> Exchange:
        """A conversation by a mechanism that the listener offers."""
        if mechanism == PLAIN:
            return _Plain(self._passwords)
        return self._scram(SCRAM_MECHANISMS[mechanism])

    def _scram(self, mechanism: ScramMechanism) -> Exchange:
        def find(user: str, is_token: bool) -> ScramCredential | None:
            return None if is_token else self._credentials.get((mechanism.name, user))

        nonce = base64.urlsafe_b64encode(self._dice.token(_NONCE_BYTES)).decode()
        return _Scram(ScramExchange(mechanism, nonce, find, self._secret))


class _Plain:
    """Implements Exchange."""

    def __init__(self, passwords: dict[str, str]) -> None:
        self._passwords = passwords
        self.claimed = ""

    async def step(self, message: bytes) -> SaslReply:
        """See Exchange."""
        said = read_plain(message)
        self.claimed = said.user
        check_password(self._passwords.get(said.user), said.password)
        return SaslReply(b"", ClientIdentity(Principal("User", said.user)))


class _Scram:
    """Implements Exchange."""

    def __init__(self, exchange: ScramExchange) -> None:
        self._exchange = exchange

    @property
    def claimed(self) -> str:
        """See Exchange."""
        return self._exchange.user

    async def step(self, message: bytes) -> SaslReply:
        """See Exchange."""
        answer = self._exchange.step(message)
        if not self._exchange.is_over:
            return SaslReply(answer)
        return SaslReply(answer, ClientIdentity(Principal("User", self._exchange.user)))

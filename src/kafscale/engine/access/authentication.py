"""Who a client is: conversations of all mechanisms, whatever protocol carries them.

Here: one conversation per login, message by message, and the identity it ends in.
Next door: the mechanisms' own rules (access/), users and secrets (credentials.py, tokens.py,
password_file.py, signing_keys.py), a Kafka connection's states (gateways/kafka/calls/login.py).
Never here: delays and limits. They are the door's.
"""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafscale.access.plain import check_password, is_password, read_plain
from kafscale.access.scram import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    decoy,
    fits_password,
)
from kafscale.engine.access.credentials import DECOY_SECRET_BYTES, Credentials
from kafscale.engine.access.reread_file import RereadFile
from kafscale.engine.access.signing_keys import SigningKeys
from kafscale.engine.access.tokens import Tokens
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import AuthenticationFailed
from kafscale.model.security.access import Principal

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

    from kafscale.access.bearer import BearerIdentity, TokenRules

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
_NONCE_BYTES: Final = 18  # of random: 24 characters
_STRETCHED_AT_ONCE: Final = 2  # passwords; each takes milliseconds of a core


class ClientIdentity(NamedTuple):
    """Who a client has proved to be."""

    principal: Principal
    expires_ms: int | None = None  # of the token that proves it
    is_by_token: bool = False  # a delegation token


class SaslReply(NamedTuple):
    """What a client is answered; with an identity the conversation is over."""

    message: bytes
    identity: ClientIdentity | None = None
    is_refusal: bool = False  # the login has failed, and the message says why


class Exchange(Protocol):
    """One conversation."""

    @property
    def claimed(self) -> str:
        """Who the client says it is; "" as long as it has not said so."""
        ...

    async def step(self, message: bytes) -> SaslReply:
        """Answer one message. Raises AuthenticationFailed."""
        ...


class BearerCheck(NamedTuple):
    """What OAUTHBEARER goes by."""

    keys: SigningKeys
    rules: "TokenRules"


class Authentication:
    """The mechanisms of a broker."""

    def __init__(
        self,
        clock: Clock,
        dice: Dice,
        credentials: Credentials,
        tokens: Tokens,
        passwords: RereadFile[dict[str, str]] | None = None,
        bearer: BearerCheck | None = None,
    ) -> None:
        self.credentials = credentials
        self.tokens = tokens
        self._clock = clock
        self._dice = dice
        self._passwords = passwords
        self._bearer = bearer
        self._stretching = asyncio.Semaphore(_STRETCHED_AT_ONCE)
        self._own_decoy_secret = dice.token(DECOY_SECRET_BYTES)  # where the fleet's is not loaded
        self._mechanisms: dict[str, Callable[[], Exchange]] = {
            name: self._scram_of(mechanism) for name, mechanism in SCRAM_MECHANISMS.items()
        }
        if passwords is not None:
            self._mechanisms[PLAIN] = lambda: _PlainLogin(passwords)
        if bearer is not None:
            self._mechanisms[OAUTHBEARER] = lambda: _BearerLogin(bearer, clock)

    async def by_password(self, user: str, password: str) -> ClientIdentity:
        """Who a client is that sends its password: a user of the file, or one with a credential.

        Raises AuthenticationFailed.
        """
        is_of_file = False
        if self._passwords is not None:
            passwords = await self._passwords.current()
            if is_password(passwords.get(user), password):
                return ClientIdentity(Principal("User", user))
            # A wrong password of the file takes as long as one of a user who is not in it.
            is_of_file = user in passwords
        secret = self.credentials.decoy_secret or self._own_decoy_secret
        kept = [] if is_of_file else self.credentials.of_user(user)
        mechanism, credential = (
            kept[0] if kept else (SCRAM_SHA_256, decoy(SCRAM_SHA_256, secret, user))
        )
        async with self._stretching:
            fits = await asyncio.to_thread(fits_password, mechanism, credential, password)
        if not fits:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        return ClientIdentity(Principal("User", user))

    async def by_token(self, token: str) -> ClientIdentity:
        """Who a client is that sends a bare token; one without a time of expiry is good, too.

        Raises AuthenticationFailed.
        """
        if self._bearer is None:
            raise AuthenticationFailed("Authentication failed: tokens are not accepted here")
        found = await identify(self._bearer, self._clock, token, must_expire=False)
        return ClientIdentity(Principal("User", found.user), found.expires_ms)

    def begin(self, mechanism: str) -> Exchange:
        """A conversation by a mechanism that the settings have turned on."""
        return self._mechanisms[mechanism]()

    def _scram_of(self, mechanism: ScramMechanism) -> Callable[[], Exchange]:
        def find(user: str, is_token: bool) -> ScramCredential | None:
            if is_token:
                return self.tokens.find_credential(mechanism, user)
            return self.credentials.find(mechanism, user)

        def begin() -> Exchange:
            nonce = base64.urlsafe_b64encode(self._dice.token(_NONCE_BYTES)).decode()
            secret = self.credentials.decoy_secret or self._own_decoy_secret
            exchange = ScramExchange(mechanism, nonce, find, secret)
            return _ScramLogin(exchange, self.tokens)

        return begin


class _ScramLogin:
    """Implements Exchange for SCRAM, by users' passwords and by delegation tokens."""

    def __init__(self, exchange: ScramExchange, tokens: Tokens) -> None:
        self._exchange = exchange
        self._tokens = tokens

    @property
    def claimed(self) -> str:
        """See Exchange."""
        return self._exchange.user

    async def step(self, message: bytes) -> SaslReply:
        """See Exchange."""
        exchange = self._exchange
        answer = exchange.step(message)
        if not exchange.is_over:
            return SaslReply(answer)
        if not exchange.is_token:
            return SaslReply(answer, ClientIdentity(Principal("User", exchange.user)))
        token = self._tokens.find(exchange.user)
        if token is None:  # it has expired, or has been removed, during the conversation
            raise AuthenticationFailed("the token has expired")
        return SaslReply(answer, ClientIdentity(token.owner, token.expires_ms, is_by_token=True))


class _PlainLogin:
    """Implements Exchange for PLAIN."""

    def __init__(self, passwords: RereadFile[dict[str, str]]) -> None:
        self._passwords = passwords
        self.claimed = ""

    async def step(self, message: bytes) -> SaslReply:
        """See Exchange."""
        said = read_plain(message)
        self.claimed = said.user
        passwords = await self._passwords.current()
        check_password(passwords.get(said.user), said.password)
        return SaslReply(b"", ClientIdentity(Principal("User", said.user)))


class _BearerLogin:
    """Implements Exchange for OAUTHBEARER.

    A client whose token is refused is told why as JSON. It answers with one byte, and only then is
    the login a failure (RFC 7628, section 3.2.3).
    """

    def __init__(self, check: BearerCheck, clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._refusal = ""
        self.claimed = ""

    async def step(self, message: bytes) -> SaslReply:
        """See Exchange."""
        from kafscale.access.bearer import read_bearer

        if self._refusal:
            raise AuthenticationFailed(self._refusal)
        token, authzid = read_bearer(message)
        try:
            identified = await identify(self._check, self._clock, token)
        except AuthenticationFailed as problem:
            self._refusal = json.dumps({"status": "invalid_token", "error": str(problem)})
            return SaslReply(self._refusal.encode(), is_refusal=True)
        self.claimed = identified.user
        if authzid and authzid != identified.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
        return SaslReply(
            b"", ClientIdentity(Principal("User", identified.user), identified.expires_ms)
        )


async def identify(
    check: BearerCheck, clock: Clock, token: str, *, must_expire: bool = True
) -> "BearerIdentity":
    """Who a token is about; the issuer may have new keys since. Raises AuthenticationFailed."""
    from kafscale.access.bearer import UnknownKey, check_token

    def read(keys: "KeySet") -> "BearerIdentity":
        return check_token(token, keys, check.rules, clock.now_ms(), must_expire=must_expire)

    try:
        return read(await check.keys.current())
    except UnknownKey:
        return read(await check.keys.newer())

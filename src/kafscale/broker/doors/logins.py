"""From the settings to the ways in which clients prove who they are.

Here: opening users' files, keys and secrets, and the first administrator. What cannot be read stops
the broker with one line that names it.
Next door: the settings (settings/security.py), the conversations
(engine/access/authentication.py), which listener has which (doors.py).
"""

import asyncio
from pathlib import Path
from typing import Final

import structlog

from kafscale.access.scram import SCRAM_MECHANISMS, credential_of_password
from kafscale.engine.access.authentication import Authentication, BearerCheck
from kafscale.engine.access.credentials import Credentials
from kafscale.engine.access.password_file import open_password_file, read_secret
from kafscale.engine.access.signing_keys import KeysOfFile, KeysOfUrl, SigningKeys
from kafscale.engine.engine import Engine
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import KafscaleError
from kafscale.settings.config import Config
from kafscale.settings.security import OAUTHBEARER, PLAIN, OauthSection, mechanisms_of

logger = structlog.get_logger()

_LEAST_SECRET: Final = 16  # characters


class UnusableSecret(KafscaleError):
    """A file with users, keys or a secret cannot be used; the text names the setting."""


def token_secret(config: Config) -> bytes | None:
    """What delegation tokens are made with, None if there are none. Raises UnusableSecret."""
    path = config.sasl.token_secret_file
    if path is None:
        return None
    secret = _read(path, "sasl.tokenSecretFile")
    if len(secret) < _LEAST_SECRET:
        raise UnusableSecret(f"sasl.tokenSecretFile: expected {_LEAST_SECRET} characters or more")
    return secret.encode()


def build_authentication(
    config: Config, engine: Engine, clock: Clock, dice: Dice
) -> Authentication:
    """The mechanisms that listeners offer. Raises UnusableSecret."""
    offered = {name for row in config.all_listeners for name in mechanisms_of(config.sasl, row)}
    passwords = None
    if PLAIN in offered and config.sasl.users_file:
        try:
            passwords = open_password_file(Path(config.sasl.users_file), clock)
        except (OSError, ValueError) as problem:
            raise UnusableSecret(f"sasl.usersFile: {_reason(problem)}") from None
    bearer = _bearer(config.sasl.oauth, clock) if OAUTHBEARER in offered else None
    return Authentication(clock, dice, engine.credentials, engine.tokens, passwords, bearer)


def _bearer(oauth: OauthSection, clock: Clock) -> BearerCheck:
    try:
        from kafscale.access.bearer import TokenRules
    except ImportError:
        raise UnusableSecret(
            "sasl.mechanisms: OAUTHBEARER needs a library: install kafscale[oauth]"
        ) from None
    rules = TokenRules(
        oauth.issuer,
        tuple(oauth.audiences),
        tuple(oauth.scopes),
        oauth.principal_claim,
        oauth.scope_claim,
        oauth.clock_skew,
    )
    try:
        keys: SigningKeys = (
            KeysOfFile(Path(oauth.jwks_file), clock)
            if oauth.jwks_file
            else KeysOfUrl(oauth.jwks_url or "", oauth.ca_file, oauth.refresh_interval, clock)
        )
    except (OSError, ValueError) as problem:
        name = "jwksFile" if oauth.jwks_file else "caFile"
        raise UnusableSecret(f"sasl.oauth.{name}: {_reason(problem)}") from None
    return BearerCheck(keys, rules)


async def prepare_credentials(config: Config, credentials: Credentials, dice: Dice) -> None:
    """Bring to the store what logins need there: the first administrator, the secret of decoys.

    Raises UnusableSecret.
    """
    if any(mechanisms_of(config.sasl, row) for row in config.all_listeners):
        await credentials.load_decoy_secret(dice)
    await add_first_admin(config, credentials, dice)


async def add_first_admin(config: Config, credentials: Credentials, dice: Dice) -> None:
    """Give the administrator of the settings a password, unless there is one in the store.

    A password that was changed since stays. Raises UnusableSecret.
    """
    user, path = config.sasl.admin_user, config.sasl.admin_password_file
    if not user or not path or credentials.of_user(user):
        return
    password = _read(path, "sasl.adminPasswordFile")
    salts = {name: dice.token(16) for name in SCRAM_MECHANISMS}
    made = await asyncio.to_thread(
        lambda: [
            (SCRAM_MECHANISMS[name], credential_of_password(SCRAM_MECHANISMS[name], password, salt))
            for name, salt in salts.items()
        ]
    )
    if await credentials.add_first(user, made):
        logger.info("administrator_created", user=user)


def _read(path: str, setting: str) -> str:
    try:
        return read_secret(Path(path))
    except (OSError, ValueError) as problem:
        raise UnusableSecret(f"{setting}: {_reason(problem)}") from None


def _reason(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror
    return str(problem)

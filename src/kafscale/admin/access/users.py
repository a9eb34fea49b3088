"""Users who log in by SCRAM: listing, making and removing them.

Passwords are stretched here; brokers never see one.
Next door: connections and refusals (admin/brokers/client.py).
"""

import secrets
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafscale.admin.brokers.client import ANSWER_WITHIN_S, wait, wait_for_all
from kafscale.admin.errors import AdminError

MECHANISMS: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_SALT_BYTES: Final = 16  # as brokers' salts for users that do not exist: a longer one would tell
_NAMES: Final = {mechanism: name for name, mechanism in MECHANISMS.items()}


class UserCredential(NamedTuple):
    """One way for one user to log in."""

    user: str
    mechanism: str
    iterations: int


def list_users(admin: AdminClient) -> list[UserCredential]:
    """Every credential of every user."""
    answer: Any = admin.describe_user_scram_credentials(request_timeout=ANSWER_WITHIN_S)
    found = wait("", answer)
    return sorted(
        UserCredential(user, _NAMES[one.mechanism], one.iterations)
        for user, described in found.items()
        for one in described.scram_credential_infos
    )


def create_user(
    admin: AdminClient, user: str, password: str, mechanisms: Sequence[str], iterations: int
) -> None:
    """Give a user a password, for each of the mechanisms; an earlier one counts no more."""
    changes: list[Any] = [
        UserScramCredentialUpsertion(
            user,
            ScramCredentialInfo(MECHANISMS[name], iterations),
            password.encode(),
            secrets.token_bytes(_SALT_BYTES),
        )
        for name in mechanisms
    ]
    wait_for_all(admin.alter_user_scram_credentials(changes, request_timeout=ANSWER_WITHIN_S))


def delete_user(admin: AdminClient, user: str) -> None:
    """Remove every credential of a user."""
    mine = [one for one in list_users(admin) if one.user == user]
    if not mine:
        raise AdminError(f"{user}: there is no such user")
    changes: list[Any] = [
        UserScramCredentialDeletion(user, MECHANISMS[one.mechanism]) for one in mine
    ]
    wait_for_all(admin.alter_user_scram_credentials(changes, request_timeout=ANSWER_WITHIN_S))

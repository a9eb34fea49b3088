"""Clients that send their password: users of the file, and users of the metadata store."""

from pathlib import Path

import pytest

from kafscale.access import scram
from kafscale.access.scram import SCRAM_SHA_256, ScramCredential, ScramMechanism
from kafscale.engine.access import authentication
from kafscale.engine.access.authentication import Authentication
from kafscale.engine.access.credentials import Credentials, NewCredential
from kafscale.engine.access.password_file import open_password_file
from kafscale.engine.access.tokens import Tokens
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.model.errors import AuthenticationFailed
from kafscale.testing.clock import ManualClock, SeededDice

SALT = b"0123456789abcdef"


@pytest.fixture
async def known(tmp_path: Path) -> Authentication:
    """Paula is in the file, Sara in the metadata store."""
    clock, dice = ManualClock(), SeededDice(1)
    store = EmbeddedMetadataStore(tmp_path / "metadata")
    credentials = Credentials(store)
    stretched = SCRAM_SHA_256.salted_password(b"of-sara", SALT, 4096)
    await credentials.change([NewCredential("sara", SCRAM_SHA_256, 4096, SALT, stretched)], [])
    (tmp_path / "users").write_text("paula=of-paula\n")
    passwords = open_password_file(tmp_path / "users", clock)
    tokens = Tokens(store, clock, dice, None)
    return Authentication(clock, dice, credentials, tokens, passwords)


async def test_users_of_both_places_log_in(known: Authentication) -> None:
    for user in ("paula", "sara"):
        assert (await known.by_password(user, f"of-{user}")).principal.name == user


async def test_a_wrong_password_takes_as_long_as_a_wrong_user_wherever_users_are_kept(
    known: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    stretched: list[int] = []

    def fits(mechanism: ScramMechanism, kept: ScramCredential, password: str) -> bool:
        stretched.append(kept.iterations)
        return scram.fits_password(mechanism, kept, password)

    monkeypatch.setattr(authentication, "fits_password", fits)
    told = set()
    for user in ("paula", "sara", "unknown"):
        with pytest.raises(AuthenticationFailed) as refused:
            await known.by_password(user, "wrong")
        told.add(str(refused.value))
    assert len(told) == 1
    assert stretched == [4096] * 3, "stretching a password is what takes time"

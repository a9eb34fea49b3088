import pytest

from kafscale.access import delegation_tokens
from kafscale.access.delegation_tokens import LONGEST_MS, USUAL_MS, DelegationToken
from kafscale.model.errors import TokenExpired, TokenOwnerMismatch
from kafscale.model.security.access import Principal

ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
NOW = 1_000_000


def made(asked_ms: int = -1) -> DelegationToken:
    return delegation_tokens.new_token("id", ALICE, ALICE, [BOB], asked_ms, NOW)


def test_a_token_lives_for_a_day_and_can_be_renewed_for_a_week() -> None:
    assert (made().expires_ms, made().latest_ms) == (NOW + USUAL_MS, NOW + LONGEST_MS)
    assert (made(5).expires_ms, made(5).latest_ms) == (NOW + 5, NOW + 5)
    assert made(LONGEST_MS * 2).latest_ms == NOW + LONGEST_MS
    assert not made(5).is_expired(NOW + 4)
    assert made(5).is_expired(NOW + 5)


def test_owner_and_renewers_renew_up_to_the_limit() -> None:
    later = delegation_tokens.renewed(made(), BOB, 10, NOW + 7)
    assert later.expires_ms == NOW + 17
    assert delegation_tokens.renewed(made(), ALICE, -1, NOW).expires_ms == NOW + USUAL_MS
    assert delegation_tokens.renewed(made(5), ALICE, 100, NOW).expires_ms == NOW + 5
    with pytest.raises(TokenOwnerMismatch):
        delegation_tokens.renewed(made(), EVE, 10, NOW)
    with pytest.raises(TokenExpired):
        delegation_tokens.renewed(made(5), ALICE, 10, NOW + 5)


def test_expiring() -> None:
    assert delegation_tokens.expired(made(), BOB, -1, NOW) is None
    ended = delegation_tokens.expired(made(), ALICE, 3, NOW)
    assert ended is not None
    assert ended.expires_ms == NOW + 3
    for period_ms in (-1, 3):
        with pytest.raises(TokenOwnerMismatch):
            delegation_tokens.expired(made(), EVE, period_ms, NOW)
    with pytest.raises(TokenExpired):
        delegation_tokens.expired(made(5), ALICE, 3, NOW + 5)
    assert delegation_tokens.expired(made(5), ALICE, -1, NOW + 5) is None


def test_the_password_follows_from_the_id_and_the_secret() -> None:
    one = delegation_tokens.token_hmac(b"secret", "id")
    assert one == delegation_tokens.token_hmac(b"secret", "id")
    assert (
        len({one, *(delegation_tokens.token_hmac(*x) for x in ((b"s", "id"), (b"secret", "i")))})
        == 3
    )
    assert len(delegation_tokens.password_of(one)) == 88

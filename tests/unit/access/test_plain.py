import pytest

from kafscale.access.plain import check_password, read_plain
from kafscale.model.errors import AuthenticationFailed


def test_a_name_and_a_password() -> None:
    assert read_plain(b"\0alice\0secret") == ("alice", "secret")
    assert read_plain(b"alice\0alice\0secret") == ("alice", "secret")


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0secret", "expected 3 tokens, got 2"),
        (b"\0alice\0sec\0ret", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"admin\0alice\0secret", "different from username"),
        (b"\0\xff\0secret", "not UTF-8"),
    ],
)
def test_bad_messages(message: bytes, match: str) -> None:
    with pytest.raises(AuthenticationFailed, match=match):
        read_plain(message)


def test_only_the_same_password_of_a_known_user_fits() -> None:
    check_password("secret", "secret")
    for expected, given in (("secret", "Secret"), (None, "secret"), (None, ""), ("", "x")):
        with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
            check_password(expected, given)

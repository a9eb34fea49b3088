"""Which keys AWS's shared files give."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafscale.model.errors import StoreRefused
from kafscale.objects.aws_profile import REREAD_AFTER, from_environment

KEYS = "aws_access_key_id = {0}\naws_secret_access_key = {0}-secret\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    return tmp_path


def write(home: Path, name: str, text: str) -> None:
    (home / ".aws" / name).write_text(text)


def used(environ: dict[str, str]) -> tuple[str, str | None]:
    found = from_environment(environ)
    assert found is not None
    keys = found()
    return keys["access_key_id"], keys.get("token")


def test_no_files_and_no_wish_leave_it_to_others(home: Path) -> None:
    assert from_environment({"HOME": str(home)}) is None


def test_the_default_profile_is_found_in_either_file(home: Path) -> None:
    write(home, "config", f"[default]\nregion = x\n{KEYS.format('CONFIG')}")
    assert used({"HOME": str(home)}) == ("CONFIG", None)
    write(home, "credentials", f"[default]\n{KEYS.format('CREDENTIALS')}")
    assert used({"HOME": str(home)}) == ("CREDENTIALS", None)


def test_other_profiles_are_called_differently_in_the_two_files(home: Path) -> None:
    write(home, "config", f"[profile a]\n{KEYS.format('A')}aws_session_token = T\n")
    write(home, "credentials", f"[b]\n{KEYS.format('B')}")
    assert used({"HOME": str(home), "AWS_PROFILE": "a"}) == ("A", "T")
    assert used({"HOME": str(home), "AWS_PROFILE": "b"}) == ("B", None)


def test_the_files_may_lie_elsewhere(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "keys"
    elsewhere.write_text(f"[default]\n{KEYS.format('ELSEWHERE')}")
    environ = {"HOME": str(home), "AWS_SHARED_CREDENTIALS_FILE": str(elsewhere)}
    assert used(environ) == ("ELSEWHERE", None)


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"])
def test_variables_come_first(home: Path, variable: str) -> None:
    write(home, "credentials", f"[default]\n{KEYS.format('FILE')}")
    assert from_environment({"HOME": str(home), variable: "x"}) is None


def test_renewed_keys_are_seen(home: Path) -> None:
    write(home, "credentials", f"[default]\n{KEYS.format('OLD')}")
    found = from_environment({"HOME": str(home)})
    assert found is not None
    expires_at = found()["expires_at"]
    assert expires_at is not None
    assert timedelta(0) < expires_at - datetime.now(UTC) <= REREAD_AFTER
    write(home, "credentials", f"[default]\n{KEYS.format('NEW')}")
    assert found()["access_key_id"] == "NEW"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no such profile"),
        ("[profile a]\nsso_session = x\n", "sso_session is not supported"),
        ("[profile a]\nrole_arn = x\nsource_profile = y\n", "role_arn is not supported"),
        ("[profile a]\ncredential_process = x\n", "credential_process is not supported"),
        ("[profile a]\naws_access_key_id = x\n", "'a' has no keys"),
        ("no section\n", "cannot read"),
    ],
)
def test_a_profile_that_was_asked_for_and_has_no_keys_is_refused(
    home: Path, text: str, words: str
) -> None:
    write(home, "config", text)
    with pytest.raises(StoreRefused, match=words):
        from_environment({"HOME": str(home), "AWS_PROFILE": "a"})

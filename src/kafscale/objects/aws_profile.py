"""Credentials from AWS's shared files: the one link of its usual chain that obstore lacks.

Here: `~/.aws/credentials` and `~/.aws/config`, one profile with keys in it.
Next door: everything else of the chain (aws_chain.py).
Never here: profiles that point elsewhere (single sign-on, roles, programs).
"""

import configparser
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafscale.model.errors import StoreRefused

if TYPE_CHECKING:
    from obstore.store import S3Credential  # exists in the type stubs only

REREAD_AFTER: Final = timedelta(minutes=5)  # tools that renew keys write them into the file
# What comes before the files in AWS's order.
_STRONGER: Final = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
_ELSEWHERE: Final = ("sso_session", "sso_start_url", "role_arn", "credential_process")


class ProfileCredentials:
    """Reads the profile anew every few minutes; obstore calls it."""

    def __init__(self, profile: str, files: Mapping[Path, str]) -> None:
        """Look for `profile` under the section name that each file calls it by."""
        self._profile = profile
        self._files = files

    def __call__(self) -> "S3Credential":
        """The keys as they are in the file now."""
        found = self._read()
        if "aws_access_key_id" not in found or "aws_secret_access_key" not in found:
            raise StoreRefused(f"AWS profile {self._profile!r} has no keys{_why(found)}")
        return {
            "access_key_id": found["aws_access_key_id"],
            "secret_access_key": found["aws_secret_access_key"],
            "token": found.get("aws_session_token"),
            # obstore compares it with the wall clock.
            "expires_at": datetime.now(UTC) + REREAD_AFTER,  # noqa: TID251
        }

    def has_keys(self) -> bool:
        """Whether the files hold keys of this profile."""
        return "aws_access_key_id" in self._read()

    def points_elsewhere(self) -> bool:
        """Whether the profile names another source of keys instead."""
        found = self._read()
        return "aws_access_key_id" not in found and any(key in found for key in _ELSEWHERE)

    def _read(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path, section in self._files.items():
            parser = configparser.RawConfigParser()
            try:
                parser.read(path, encoding="utf-8")
            except (configparser.Error, UnicodeDecodeError) as bad:
                raise StoreRefused(f"cannot read {path}: {type(bad).__name__}") from bad
            if parser.has_section(section):
                found = {**dict(parser.items(section)), **found}
        return found


def from_environment(environ: Mapping[str, str]) -> ProfileCredentials | None:
    """Give the profile to use, if the variables leave the choice to the files."""
    if any(environ.get(name) for name in _STRONGER):
        return None
    profile = _chosen(environ)
    if _asked(environ):
        profile()  # the user named this profile: report now what is wrong with it
    return profile if profile.has_keys() else None


def points_elsewhere(environ: Mapping[str, str]) -> bool:
    """Whether the profile to use has no keys and says where to get them."""
    if any(environ.get(name) for name in _STRONGER):
        return False
    return _chosen(environ).points_elsewhere()


def _asked(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or ""


def _chosen(environ: Mapping[str, str]) -> ProfileCredentials:
    name = _asked(environ) or "default"
    home = Path(environ.get("HOME", "/")) / ".aws"
    credentials = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials")
    config = Path(environ.get("AWS_CONFIG_FILE") or home / "config")
    return ProfileCredentials(
        name, {credentials: name, config: name if name == "default" else f"profile {name}"}
    )


def _why(found: Mapping[str, str]) -> str:
    if not found:
        return ": there is no such profile in the shared files"
    if elsewhere := next((key for key in _ELSEWHERE if key in found), None):
        return (
            f": {elsewhere} is not supported without boto3 (pip install 'kafscale[aws]'); "
            "else give keys or a role of the machine"
        )
    return ""

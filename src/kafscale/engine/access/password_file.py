"""Users and passwords of SASL PLAIN, from a file or a mounted secret.

Here: the two forms. A file has a line `user=password` each; `#` begins a comment. A folder has a
file per user, named like the user, with the password in it.
Next door: noticing changes (reread_file.py), comparing passwords (access/plain.py).
"""

from pathlib import Path
from typing import Final

from kafscale.engine.access.reread_file import RereadFile, read_text, visible_files
from kafscale.model.clock import Clock

MOST_USERS: Final = 100_000


def open_password_file(path: Path, clock: Clock) -> RereadFile[dict[str, str]]:
    """Read passwords, now and whenever they change. Raises OSError, ValueError."""
    return RereadFile(path, read_passwords, clock)


def read_passwords(path: Path) -> dict[str, str]:
    """Users and their passwords. Raises OSError, and ValueError, whose text has no password."""
    if path.is_dir():
        return {one.name: read_secret(one) for one in visible_files(path)[:MOST_USERS]}
    users: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        user, equals, password = line.partition("=")
        if not equals or not user.strip() or not password:
            raise ValueError(f"{path}, line {number}: expected user=password")
        if user.strip() in users:
            raise ValueError(f"{path}, line {number}: the user {user.strip()!r} is there twice")
        users[user.strip()] = password
    return users


def read_secret(path: Path) -> str:
    """The one secret of a file, without the line break at its end. Raises OSError, ValueError."""
    secret = read_text(path).rstrip("\r\n")
    if not secret:
        raise ValueError(f"{path} is empty")
    return secret

"""Where commands get passwords from: a file, a variable, or the person at the terminal."""

import getpass
import os
import sys
from pathlib import Path

from kafscale.cli.terminal.errors import UsageError


def read_password(file: str | None, variable: str, question: str) -> str:
    """The password of a file, else of a variable, else what is typed and not shown."""
    if file is not None:
        password = Path(file).read_text("utf-8").rstrip("\r\n")
        where = file
    elif variable in os.environ:
        password, where = os.environ[variable], variable
    elif sys.stdin.isatty():
        password, where = getpass.getpass(question), "what was typed"
    else:
        raise UsageError(f"expected a password in a file or in {variable}, found none")
    if not password:
        raise UsageError(f"expected a password, found none in {where}")
    return password

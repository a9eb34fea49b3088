"""How a command says no: one line for the person at the terminal, and an exit code."""

from typing import ClassVar


class CommandError(Exception):
    """The command could not do what was asked."""

    exit_code: ClassVar[int] = 1


class UsageError(CommandError):
    """The command was called in a way that makes no sense."""

    exit_code: ClassVar[int] = 2

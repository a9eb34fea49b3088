"""Errors of commands: one line for the person at the terminal, and an exit code."""

from typing import ClassVar


class CommandError(Exception):
    """The command could not do what was asked."""

    exit_code: ClassVar[int] = 1


class UsageError(CommandError):
    """The arguments of the command make no sense."""

    exit_code: ClassVar[int] = 2


class Stopped(CommandError):
    """Ctrl-C ended the command before its work was done."""

    exit_code: ClassVar[int] = 130  # 128 + SIGINT, as a shell reports it

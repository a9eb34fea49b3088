"""Errors of the local fleet; the text is the one line that a person needs."""


class LocalError(Exception):
    """The fleet cannot be started, or cannot be stopped."""


class ProgramMissing(LocalError):
    """A program that the fleet consists of is not installed."""


class AlreadyRunning(LocalError):
    """Another process supervises this folder."""

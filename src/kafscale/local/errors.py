"""How the local fleet says no: the message is the one line a person needs."""


class LocalError(Exception):
    """The fleet cannot be started, or cannot be stopped."""


class ProgramMissing(LocalError):
    """A program that the fleet consists of is not installed."""


class AlreadyRunning(LocalError):
    """Somebody else supervises this folder."""

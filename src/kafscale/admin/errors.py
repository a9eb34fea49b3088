"""Why a question has no answer or a change was refused: one line for a person."""


class AdminError(Exception):
    """The question could not be answered, or the change could not be made."""


class InvalidArgument(AdminError):
    """The caller asked for something that makes no sense."""

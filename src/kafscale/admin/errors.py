"""Why a question has no answer or a change was refused: one line for a person."""


class AdminError(Exception):
    """The question could not be answered, or the change could not be made.

    `code`: Kafka's number of the error, below zero for the client library's own; None: neither.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class InvalidArgument(AdminError):
    """The caller asked for something that makes no sense."""

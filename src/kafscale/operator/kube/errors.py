"""What the API server refuses, as errors."""

from kafscale.model.errors import KafscaleError


class KubeError(KafscaleError):
    """The API server refused a request, or could not be reached (status 0)."""

    def __init__(self, message: str, status: int = 0, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def is_not_found(self) -> bool:
        """Whether the object or its kind is not there."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether another writer was faster, or the object is there already."""
        return self.status == 409

    @property
    def is_gone(self) -> bool:
        """Whether the server no longer knows what came after the version asked for."""
        return self.status == 410

    @property
    def is_forbidden(self) -> bool:
        """Whether the operator lacks a right."""
        return self.status == 403

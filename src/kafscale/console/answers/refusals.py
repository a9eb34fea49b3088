"""Refusals of the API: a status, a code for programs, a sentence for people.

Next door: how they are sent (console/app.py), which requests are refused before they reach a page
(console/entry/wall.py).
"""

from typing import Final

STATUS: Final[dict[str, int]] = {
    "invalid": 400,
    "not_logged_in": 401,
    "wrong": 401,
    "disabled": 403,
    "read_only": 403,
    "cross_site": 403,
    "hidden": 403,
    "unknown_path": 404,
    "unknown_topic": 404,
    "unknown_group": 404,
    "unknown_broker": 404,
    "unknown_object": 404,
    "unknown_record": 404,
    "unknown_snapshot": 404,
    "unknown_job": 404,
    "method": 405,
    "exists": 409,
    "not_empty": 409,
    "moving": 409,
    "plan_outdated": 409,
    "too_large": 413,
    "media_type": 415,
    "host": 421,
    "refused": 422,
    "slow_down": 429,
    "internal": 500,
    "broker": 502,
    "store": 503,
    "no_bucket": 503,
    "timeout": 504,
}
_PASSING: Final = frozenset({"slow_down", "broker", "store", "timeout", "moving"})


class ApiRefusal(Exception):
    """A request that is not carried out."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        kafka_code: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.kafka_code = kafka_code
        self.retry_after_s = retry_after_s
        self.status = STATUS[code]
        self.retry = code in _PASSING

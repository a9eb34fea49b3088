"""Durations as people write them: 90m, 1d12h or ISO 8601's PT90M."""

import re
from datetime import timedelta
from typing import Final

from kafscale.cli.terminal.errors import UsageError

_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?",
    re.IGNORECASE,
)
_SHORT_DURATION: Final = re.compile(
    r"(?:(?P<days>\d+)d)?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?"
)


def parse_duration(option: str, text: str) -> timedelta:
    """Read 90m, 1d12h or ISO 8601's PT90M."""
    match = _SHORT_DURATION.fullmatch(text) or _ISO_DURATION.fullmatch(text)
    parts = {key: int(value) for key, value in match.groupdict().items() if value} if match else {}
    if not parts:
        raise UsageError(f"{option}: expected something like 90m or PT90M, found {text!r}")
    try:
        return timedelta(**parts)
    except OverflowError:
        return timedelta.max  # older than every record

"""Which keys the object stores accept, the same in every adapter.

Here: one check, strict enough that a key is a safe file path and a plain S3 key.
Next door: what the keys mean (log/formats/keys.py).

Names that begin with a dot in the first segment belong to the adapters themselves.
"""

import re
from typing import Final

from kafscale.model.errors import StoreRefused

MAX_KEY_CHARS: Final = 1024  # S3's limit
MAX_SEGMENT_CHARS: Final = 255  # what file systems allow in one name

_SEGMENT: Final = rf"(?!\.{{1,2}}(?:/|\Z))[A-Za-z0-9._@=+,%-]{{1,{MAX_SEGMENT_CHARS}}}"
_KEY: Final = re.compile(rf"(?!\.){_SEGMENT}(?:/{_SEGMENT})*")


def check_key(key: str) -> str:
    """Give the key back, or refuse it."""
    if len(key) > MAX_KEY_CHARS or _KEY.fullmatch(key) is None:
        raise StoreRefused(f"not a key an object may have: {key[:200]!r}")
    return key


def check_folder(folder: str) -> str:
    """Give the folder back; an empty one means everything."""
    return check_key(folder) if folder else folder


def inside(folder: str) -> str:
    """The prefix that all keys of a folder share: whole segments only, so a/b is not in a/bc."""
    return f"{folder}/" if folder else ""

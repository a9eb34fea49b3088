"""Whether an object on the server is as it was last applied.

Here: the server adds defaults, and others add fields; only what we name is compared. The server
leaves out what is empty, zero or false.
"""

from typing import Any


def contains(live: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            contains(live[key], value) if key in live else not value
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(contains(one, other) for one, other in zip(live, wanted, strict=True))
        )
    return bool(live == wanted)

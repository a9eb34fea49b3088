"""Patterns of topics that members of consumer groups subscribe to.

They are matched by RE2, as in Kafka: no pattern and no name makes it slow.
"""

from collections.abc import Callable

import re2

from kafscale.model.errors import InvalidRegularExpression


def compile_pattern(regex: str) -> Callable[[str], bool]:
    """Whether a topic's whole name matches. Raises InvalidRegularExpression."""
    options = re2.Options()
    options.log_errors = False  # else RE2 writes to standard error by itself
    try:
        pattern = re2.compile(regex, options)
    except re2.error as problem:
        reason = problem.args[0].decode() if problem.args else "not readable"
        raise InvalidRegularExpression(f"not a pattern of RE2: {reason}") from None
    return lambda name: pattern.fullmatch(name) is not None

"""How many examples a property is tried with: all in `make test`, a fifth in `make check`."""

from hypothesis import settings

_FULL = 100  # what hypothesis takes by default


def scaled(count: int) -> int:
    """This count, cut down as the profile in use cuts down."""
    return max(2, count * settings.default.max_examples // _FULL)


def examples(count: int) -> settings:
    """Settings for a property that needs more or fewer examples than the usual hundred."""
    return settings(max_examples=scaled(count))

"""How long a group waits: for more members to come, for members to join, for the leader."""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Patience:
    """One wait. `ends_s` is when those who are not there by then are given up."""

    ends_s: float = math.inf
    is_for_more: bool = False  # held open although all who are known are there
    _began_s: float = 0.0
    _delay_s: float = 0.0

    @classmethod
    def begun(cls, now_s: float, longest_s: float, delay_s: float | None = None) -> "Patience":
        """Wait for the slowest member; with a delay, that long for more to come."""
        if delay_s is None:
            return cls(now_s + longest_s)
        return cls(now_s + min(delay_s, longest_s), True, now_s, delay_s)

    def extend(self, now_s: float, longest_s: float) -> None:
        """One more has come: as long again for the next, but not beyond the slowest member."""
        if self.is_for_more:
            self.ends_s = min(now_s + self._delay_s, self._began_s + longest_s)

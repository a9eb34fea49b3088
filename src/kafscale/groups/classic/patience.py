"""Deadlines of a rebalance: for more members, for members to join again, for the leader."""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Patience:
    """One wait. At `ends_s` the group goes on without the members that are missing."""

    ends_s: float = math.inf
    is_for_more: bool = False  # the group waits for new members although all known ones joined
    _began_s: float = 0.0
    _delay_s: float = 0.0

    @classmethod
    def begun(cls, now_s: float, longest_s: float, delay_s: float | None = None) -> "Patience":
        """Wait for the slowest member; with `delay_s`, wait that long for new members."""
        if delay_s is None:
            return cls(now_s + longest_s)
        return cls(now_s + min(delay_s, longest_s), True, now_s, delay_s)

    def extend(self, now_s: float, longest_s: float) -> None:
        """A new member joined: wait as long again, up to the longest rebalance timeout."""
        if self.is_for_more:
            self.ends_s = min(now_s + self._delay_s, self._began_s + longest_s)

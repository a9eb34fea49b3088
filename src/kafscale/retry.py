"""How long to wait before a request is sent again: one policy for every store and job.

Here: pauses that grow up to a limit. Never here: the waiting itself, and which errors are worth
another attempt; the caller decides both.
"""

import math
from dataclasses import dataclass
from typing import Final

from kafscale.model.clock import Dice

_CHANCE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Pauses begin with `first_s` and grow by `factor` up to `longest_s`.

    `jitter`: up to this part of a pause is added by chance, so that not all clients of a store
    that was away come back at the same moment. `deadline_s`: no attempt begins later than this
    after the first one.
    """

    first_s: float
    longest_s: float
    factor: float = 2.0
    jitter: float = 0.0
    deadline_s: float = math.inf


class Backoff:
    """The pauses of one request that is sent again until it succeeds."""

    __slots__ = ("_dice", "_pause_s", "_policy")

    def __init__(self, policy: RetryPolicy, dice: Dice | None = None) -> None:
        """Follow a policy; without dice there is no jitter."""
        self._policy = policy
        self._dice = dice
        self._pause_s = policy.first_s

    def allows(self, waited_s: float) -> bool:
        """Whether another attempt may follow, so long after the first one."""
        return waited_s + self._pause_s <= self._policy.deadline_s

    def next_s(self) -> float:
        """The next pause; the one after it is longer."""
        pause_s = self._pause_s
        self._pause_s = min(pause_s * self._policy.factor, self._policy.longest_s)
        if self._dice is None or not self._policy.jitter:
            return pause_s
        chance = int.from_bytes(self._dice.token(_CHANCE_BYTES), "big") / 256**_CHANCE_BYTES
        return pause_s * (1 + self._policy.jitter * chance)

    def restart(self) -> None:
        """Begin with the first pause again: a request succeeded."""
        self._pause_s = self._policy.first_s

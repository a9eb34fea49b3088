"""Whether a client that does not come back from a call is waiting for a broker.

librdkafka tells in its statistics which requests it has sent, and how many wait to be sent or
answered. A client that waits for nothing and asks nothing waits for itself. One that asks again and
again, or has no answer, may wait because of a broker.
Next door: who looks (transactors.py).
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

EVERY_MS: Final = 500
# A client asks these by itself, now and then, whatever its application waits for.
BY_ITSELF: Final = frozenset({"ApiVersion", "Metadata", "SaslHandshake", "SaslAuthenticate"})


class Moment(NamedTuple):
    """What one report of a client's statistics says of its requests."""

    sent: Counter[str]
    waiting: int

    @classmethod
    def of(cls, text: str) -> "Moment":
        brokers: list[dict[str, Any]] = list(json.loads(text)["brokers"].values())
        sent: Counter[str] = Counter()
        for one in brokers:
            sent.update({api: n for api, n in one["req"].items() if api not in BY_ITSELF})
        return cls(sent, sum(one["waitresp_cnt"] + one["outbuf_cnt"] for one in brokers))


class Asking:
    """Watches one client by its statistics, which it is given while it is polled."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []

    def settings(self) -> dict[str, object]:
        return {"statistics.interval.ms": EVERY_MS, "stats_cb": self.told}

    def told(self, text: str) -> None:
        self._moments = [*self._moments[-1:], Moment.of(text)]

    def is_waiting_for_itself(self, poll: Callable[[float], object], for_s: float) -> bool:
        """Whether the client neither asked nor waited for any broker during this time."""
        self._moments = []
        found: list[Moment] = []
        until_s = time.monotonic() + for_s
        while time.monotonic() < until_s:
            poll(EVERY_MS / 1000)
            found += self._moments[-1:]
        return len(found) > 1 and is_silent(found)


def is_silent(moments: list[Moment]) -> bool:
    """Whether no request was sent, awaited or held back at any of these moments."""
    return all(one == Moment(moments[0].sent, 0) for one in moments)

"""Saying what a producer waits for.

Here: a look at the producer now and then, beside the work, and one line on standard error when
nothing is acknowledged for some seconds.
Next door: the producer (admin/records/producing.py), what brokers say (admin/brokers/members.py).
"""

import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from kafscale.admin.brokers import members
from kafscale.admin.brokers.client import open_admin
from kafscale.admin.brokers.page_trust import trust_of_client
from kafscale.admin.errors import AdminError
from kafscale.admin.records.producing import Delivery
from kafscale.model.printable import printable

PATIENCE_S: Final = 3.0
_LOOK_EVERY_S: Final = 0.5
_ASK_AGAIN_S: Final = 5.0


class StallWatch:
    """Looks at a delivery until it is closed. Use as a context."""

    def __init__(self, delivery: Delivery, ask: Callable[[], str]) -> None:
        """`ask`: asks brokers why they acknowledge nothing."""
        self._delivery = delivery
        self._ask = ask
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.reason = ""  # why nothing is acknowledged now; "": something is

    def __enter__(self) -> "StallWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        settled, quiet_s, said = 0, 0.0, ""
        while not self._is_over.wait(_LOOK_EVERY_S):
            self._delivery.poll()
            if self._delivery.settled != settled or not self._delivery.waiting:
                settled, quiet_s, self.reason = self._delivery.settled, 0.0, ""
                continue
            quiet_s += _LOOK_EVERY_S
            if quiet_s < PATIENCE_S or (self.reason and quiet_s % _ASK_AGAIN_S):
                continue
            self.reason = self._ask()
            if self.reason != said and not self._is_over.is_set():
                said = self.reason
                waiting = self._delivery.waiting
                print(f"kafscale: {waiting} records wait: {printable(said)}", file=sys.stderr)


def ask_brokers(settings: dict[str, Any]) -> str:
    """Why brokers acknowledge nothing, in their own words where they give some."""
    try:
        pages = members.find_pages(open_admin(settings))
        trust = trust_of_client(settings, pages)
    except AdminError as problem:
        return f"no broker says why ({problem})"
    reasons = []
    for page in pages:
        try:
            reasons += members.why_not_ready(page, trust)
        except AdminError as problem:
            reasons.append(str(problem))
    return (
        "; ".join(dict.fromkeys(reasons)) or "brokers acknowledge nothing, and say they are ready"
    )

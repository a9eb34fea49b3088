"""Events: what has happened to an object, once per turn of things, for people.

Next door: which turns there are (planning/conditions.py).
"""

import datetime
from typing import Any, Final

import structlog

from kafscale.model.clock import Clock, Dice
from kafscale.operator.kinds.cluster import API_VERSION
from kafscale.operator.kinds.metadata import Metadata
from kafscale.operator.kube.client import Kube
from kafscale.operator.kube.errors import KubeError

logger = structlog.get_logger()

_CONTROLLER: Final = "kafscale.io/operator"
_MOST_NOTE: Final = 1000


class Events:
    """Tells events to the API server. One that cannot be told is logged and forgotten."""

    def __init__(self, kube: Kube, clock: Clock, dice: Dice, identity: str) -> None:
        self._kube = kube
        self._clock = clock
        self._dice = dice
        self._identity = identity

    async def tell(
        self, kind: str, about: Metadata, reason: str, note: str, *, is_bad: bool
    ) -> None:
        """Tell one event about one of our objects."""
        moment = datetime.datetime.fromtimestamp(self._clock.now_ms() / 1000, datetime.UTC)
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name}.{self._dice.token(8).hex()}",
                "namespace": about.namespace,
            },
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": _CONTROLLER,
            "reportingInstance": self._identity[:128],
            "action": "Reconcile",
            "reason": reason[:128],
            "note": note[:_MOST_NOTE],
            "type": "Warning" if is_bad else "Normal",
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
        }
        try:
            await self._kube.create(event)
        except KubeError as problem:
            logger.info("event_not_told", reason=reason, error=str(problem))

"""Election of one leader among several operators, by a Lease.

Here: a candidate takes over a record that it has seen unchanged for as long as it says; it measures
by its own clock, so clocks need not agree. A leader that cannot renew in time stops leading before
another may begin.
Next door: the requests (client.py).
"""

import asyncio
import datetime
from collections.abc import Callable
from typing import Final

import structlog

from kafscale.model.clock import Clock
from kafscale.operator.kube.client import Kube, Object
from kafscale.operator.kube.errors import KubeError

logger = structlog.get_logger()

DURATION_S: Final = 15
RENEW_S: Final = 5.0
GIVE_UP_S: Final = 10.0
_LOOK_S: Final = 2.0


class LeaseLost(Exception):
    """The operator may not lead any longer."""


class Election:
    """One candidate. `is_alive` says whether the work that the leader does still goes on."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        namespace: str,
        identity: str,
        *,
        name: str = "kafscale-operator",
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self.identity = identity
        self.is_leader = False
        self._kube = kube
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._is_alive = is_alive
        self._seen: tuple[str, float] | None = None  # the record's version, and since when

    async def win(self) -> None:
        """Wait until this candidate leads."""
        while not await self._try():  # noqa: ASYNC110 - the server tells no one
            await asyncio.sleep(_LOOK_S)
        self.is_leader = True
        logger.info("leading", identity=self.identity)

    async def hold(self) -> None:
        """Renew until cancelled; LeaseLost when it is over."""
        renewed_s = self._clock.elapsed_s()
        while True:
            await asyncio.sleep(RENEW_S)
            if not self._is_alive():
                self.is_leader = False
                raise LeaseLost("the work has stopped, so another operator should lead")
            if await self._try():
                renewed_s = self._clock.elapsed_s()
            elif self._clock.elapsed_s() - renewed_s >= GIVE_UP_S or await self._is_of_another():
                self.is_leader = False
                raise LeaseLost("the Lease could not be renewed in time")

    async def release(self) -> None:
        """Let the next candidate lead at once."""
        if not self.is_leader:
            return
        self.is_leader = False
        try:
            record = await self._kube.get("Lease", self._namespace, self._name)
            if record is not None and record["spec"].get("holderIdentity") == self.identity:
                record["spec"]["holderIdentity"] = ""
                await self._kube.replace(record)
        except KubeError as problem:
            logger.info("lease_not_released", error=str(problem))

    async def _is_of_another(self) -> bool:
        try:
            record = await self._kube.get("Lease", self._namespace, self._name)
        except KubeError:
            return False
        return record is not None and record["spec"].get("holderIdentity") != self.identity

    async def _try(self) -> bool:
        """Take or renew the Lease; False if another holds it or the server does not answer."""
        try:
            record = await self._kube.get("Lease", self._namespace, self._name)
            if record is None:
                await self._kube.create(self._record())
                return True
            holder = record["spec"].get("holderIdentity")
            if holder and holder != self.identity and not self._has_expired(record):
                return False
            await self._kube.replace(self._renewed(record, holder))
        except KubeError as problem:
            if not problem.is_conflict:
                logger.info("lease_not_taken", error=str(problem))
            return False
        return True

    def _has_expired(self, record: Object) -> bool:
        version, now_s = record["metadata"]["resourceVersion"], self._clock.elapsed_s()
        if self._seen is None or self._seen[0] != version:
            self._seen = version, now_s
        duration_s = record["spec"].get("leaseDurationSeconds") or DURATION_S
        return now_s - self._seen[1] >= duration_s

    def _record(self) -> Object:
        now = self._now()
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    def _renewed(self, record: Object, holder: str | None) -> Object:
        spec = record["spec"]
        if holder != self.identity:
            spec["acquireTime"] = self._now()
            spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
        spec |= {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION_S,
            "renewTime": self._now(),
        }
        return record

    def _now(self) -> str:
        moment = datetime.datetime.fromtimestamp(self._clock.now_ms() / 1000, datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

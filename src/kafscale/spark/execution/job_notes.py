"""How far a job has come, kept in the bucket, so that a run after a crash goes on from there.

Here: a plan that is made once, and the results of finished steps. Each is an object that is created
only if absent: of two runs at once one makes the plan and both follow it; of two results of one
step the first counts for both. All of it is JSON, below `{namespace}/@{job}/{id}`.
Next door: the jobs (jobs/), what they load (sink/bulk.py).
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from kafscale.model.errors import CorruptObject, ObjectExists
from kafscale.spark import leftovers
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution import units

_T = TypeVar("_T")
_U = TypeVar("_U")


def fingerprint(*wishes: object) -> str:
    """A short name for what a job was asked to do: the same request, the same name."""
    return hashlib.sha256(msgspec.json.encode(wishes)).hexdigest()[:24]


class JobNotes:
    """The notes of one request to one job; pickled to the executors."""

    def __init__(self, bucket: Bucket, job: str, identity: str) -> None:
        self.bucket = bucket
        self.job = job
        self.identity = identity
        self.folder = f"{bucket.namespace}/@{job}/{identity}"

    def keep(self, step: str, result: _T, kind: Any) -> _T:
        """Store a result; if another run stored one before, return that one."""
        key = f"{self.folder}/{step}"
        try:
            self.bucket.put_new(key, [msgspec.json.encode(result)])
        except ObjectExists:
            kept: _T = self._read(key, kind)
            return kept
        return result

    def _read(self, key: str, kind: Any) -> Any:
        try:
            return msgspec.json.decode(self.bucket.read(key), type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as bad:
            raise CorruptObject(f"{key}: {bad}") from bad

    def plan(self, make: Callable[[], _T], kind: Any) -> _T:
        """The plan that is stored, else a new one."""
        if "plan" in self.steps():
            planned: _T = self._read(f"{self.folder}/plan", kind)
            return planned
        return self.keep("plan", make(), kind)

    def steps(self) -> set[str]:
        """The names of the steps whose results are stored."""
        objects = self.bucket.run(lambda store: store.find(self.folder))
        return {row.key.removeprefix(f"{self.folder}/") for row in objects}

    def forget(self) -> None:
        """Delete all notes: the job is done, or cannot be done any more."""
        self.bucket.run(leftovers.delete_below, self.folder)

    def run(
        self,
        spark: Callable[[], Any],
        prefix: str,
        work: Sequence[_U],
        do: Callable[[_U], _T],
        kind: Any,
        *,
        progress: units.ShowUnits | None = None,
    ) -> list[_T]:
        """Run the missing steps on the executors; return all results in the order of `work`."""
        names = [f"{prefix}-{number:06d}" for number in range(len(work))]
        noted = self.steps()
        missing = [at for at, name in enumerate(names) if name not in noted]

        def step(at: int) -> _T:
            return self.keep(names[at], do(work[at]), kind)

        computed: dict[int, _T] = {}
        if missing:
            results = units.run_units(spark(), missing, step, progress=progress)
            computed = dict(zip(missing, results, strict=True))
        return [
            computed[at] if at in computed else self._read(f"{self.folder}/{name}", kind)
            for at, name in enumerate(names)
        ]

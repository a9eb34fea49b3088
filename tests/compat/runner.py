"""Many cases at a time, each worker with brokers of its own.

Own brokers make it certain which test sent which request: one that passes without having sent any
has tested nothing.
"""

import queue
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from tests.compat import librdkafka, targets
from tests.compat.cases import Case
from tests.compat.librdkafka import Verdict
from tests.compat.targets import Target
from tests.support.exposition import parse
from tests.support.program import ProgramDied

# Those that take longest come first, so that no worker is left with one at the end.
LONGEST = ("0113", "0089", "0081", "0076", "0045", "0091", "0033", "0026", "0094", "0102", "0030")


class Bench:
    """Brokers for one worker, one per scenario and kind of security.

    The thread that makes the bench starts them: the kernel ends them with that thread, so it must
    not be a worker of a pool.
    """

    def __init__(self, kinds: set[tuple[str, str]]) -> None:
        self._targets = {kind: targets.start(*kind) for kind in sorted(kinds)}
        for target in self._targets.values():
            _wait_for_metrics(target)

    def run(self, case: Case) -> Verdict:
        target = self._targets[_kind(case)]
        before = _requests(target)
        began = time.monotonic()
        verdict = librdkafka.run(case, target)
        verdict.seconds = time.monotonic() - began
        if not target.broker.running:
            raise ProgramDied(f"during {case}; its last words:\n{target.broker.tail()}")
        verdict.requests = _requests(target) - before
        return verdict

    def close(self) -> None:
        for target in self._targets.values():
            target.close()


def _kind(case: Case) -> tuple[str, str]:
    return case.scenario, case.secured


def _wait_for_metrics(target: Target) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            _requests(target)
            return
        except OSError:
            if time.monotonic() > deadline or not target.broker.running:
                raise
            time.sleep(0.05)


def run_all(
    cases: Iterable[Case],
    told: Callable[[Verdict], None],
    once: Collection[Case] = (),
    workers: int = 3,
) -> list[Verdict]:
    """Run all; those that fail once more, alone, at the end, unless they are to run `once`."""
    librdkafka.program()
    ordered = sorted(cases, key=lambda case: (_rank(case), case))
    kinds = {_kind(case) for case in ordered}
    benches: queue.SimpleQueue[Bench] = queue.SimpleQueue()

    def run(case: Case) -> Verdict:
        bench = benches.get()
        try:
            verdict = bench.run(case)
        finally:
            benches.put(bench)
        told(verdict)
        return verdict

    try:
        for _ in range(min(workers, len(ordered))):
            benches.put(Bench(kinds))
        with ThreadPoolExecutor(workers) as pool:
            verdicts = list(pool.map(run, ordered))
        return [
            run(first.case) if first.reasons and first.case not in once else first
            for first in verdicts
        ]
    finally:
        while not benches.empty():
            benches.get().close()


def _rank(case: Case) -> int:
    return LONGEST.index(case.number) if case.number in LONGEST else len(LONGEST)


def _requests(target: Target) -> float:
    samples = parse(target.metrics())
    return sum(
        value
        for (name, labels), value in samples.items()
        if name == "kafscale_requests_total" and ("api", "ApiVersions") not in labels
    )

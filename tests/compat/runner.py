"""Many cases at a time, each worker with brokers of its own.

Own brokers make it certain which test sent which request: one that passes without having sent any
has tested nothing.
"""

import queue
import time
import urllib.request
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from tests.compat import librdkafka
from tests.compat.cases import Case
from tests.compat.librdkafka import Verdict
from tests.support.broker import KafscaleProcess
from tests.support.exposition import parse
from tests.support.program import ProgramDied

# Those that take longest come first, so that no worker is left with one at the end.
LONGEST = ("0113", "0089", "0081", "0076", "0045", "0091", "0033", "0026", "0094", "0102", "0030")


class Bench:
    """Brokers for one worker, one per scenario.

    The thread that makes the bench starts them: the kernel ends them with that thread, so it must
    not be a worker of a pool.
    """

    def __init__(self, scenarios: set[str]) -> None:
        self._brokers = {name: KafscaleProcess(env=_settings(name)).start() for name in scenarios}
        for broker in self._brokers.values():
            _wait_for_metrics(broker)

    def run(self, case: Case) -> Verdict:
        broker = self._brokers[case.scenario]
        before = _requests(broker)
        began = time.monotonic()
        verdict = librdkafka.run(case, broker.bootstrap)
        verdict.seconds = time.monotonic() - began
        if not broker.running:
            raise ProgramDied(f"during {case}; its last words:\n{broker.tail()}")
        verdict.requests = _requests(broker) - before
        return verdict

    def close(self) -> None:
        for broker in self._brokers.values():
            broker.close()


def _settings(scenario: str) -> dict[str, str]:
    return {
        "KAFSCALE_AUTO_CREATE_PARTITIONS": "4",
        "KAFSCALE_AUTO_CREATE_TOPICS": "false" if scenario == "noautocreate" else "true",
    }


def _wait_for_metrics(broker: KafscaleProcess) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            _requests(broker)
            return
        except OSError:
            if time.monotonic() > deadline or not broker.running:
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
    scenarios = {case.scenario for case in ordered}
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
            benches.put(Bench(scenarios))
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


def _requests(broker: KafscaleProcess) -> float:
    url = f"http://127.0.0.1:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        samples = parse(answer.read())
    return sum(
        value
        for (name, labels), value in samples.items()
        if name == "kafscale_requests_total" and ("api", "ApiVersions") not in labels
    )

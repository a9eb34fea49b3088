"""What a broker costs: processor seconds and memory of its whole process tree.

Next door: the work it is measured under (clients.py, raw.py).
"""

import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.support.process import BrokerProcess


@dataclass(slots=True)
class Cost:
    """One measured stretch of work."""

    wall_s: float = 0.0
    broker_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    peak_rss_mb: float = 0.0


class Meter:
    """Measures between entering and leaving."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self.cost = Cost()

    def __enter__(self) -> Self:
        for process in tree(self._broker.pid):
            _forget_peak(process)
        self._broker_cpu_s = cpu_s(self._broker.pid)
        self._client_cpu_s = time.process_time()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cost.wall_s = time.perf_counter() - self._began
        self.cost.client_cpu_s = time.process_time() - self._client_cpu_s
        if error is None:
            self.cost.broker_cpu_s = cpu_s(self._broker.pid) - self._broker_cpu_s
            self.cost.peak_rss_mb = sum(map(_peak_mb, tree(self._broker.pid)))


def tree(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def cpu_s(pid: int) -> float:
    """User and system time of all threads, also of those that have ended.

    From each process's own clock: the counters in /proc move in steps of 10 ms, a tenth of what
    the shorter workloads take.
    """
    return sum(time.clock_gettime(_cpu_clock(process.pid)) for process in tree(pid))


def _cpu_clock(pid: int) -> int:
    """What clock_getcpuclockid(3) answers on Linux; Python offers it for threads only."""
    return ~pid << 3 | 2


def rss_mb(pid: int) -> float:
    return float(sum(process.memory_info().rss for process in tree(pid))) / 1e6


def _forget_peak(process: psutil.Process) -> None:
    """Linux keeps the highest resident size of a process and lets its owner start it anew."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def _peak_mb(process: psutil.Process) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("no VmHWM: peak memory can be measured on Linux only")

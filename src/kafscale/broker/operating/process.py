"""What this process takes of the machine."""

import os
import resource
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_bytes() -> float:
    """Memory in use now; where the system does not say, the most there ever was."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def cpu_seconds() -> float:
    """CPU time spent by all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

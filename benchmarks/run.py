"""What all measurements of one run share: its time, its progress, its log lines.

Records carry the time of the run: a broker deletes what is older than its topic's retention, so a
date in the source would end every benchmark some day. All else is made from seeds.
"""

import logging
import sys
import time

import structlog

NOW_MS = int(time.time() * 1000)


def show_progress(text: str) -> None:
    """Say on standard error what is measured now: one line on a terminal, else a line each."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def hide_log_lines() -> None:
    """Logs that run inside the benchmark's own process write warnings and errors only."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

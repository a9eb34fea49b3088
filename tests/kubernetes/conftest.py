"""A Kubernetes for each test, on fakes and on a real control plane; pods are real processes.

The real control plane is one for all tests, in a network of its own, and so are etcd and the S3
server that brokers use.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import etcd
from tests.support.kubernetes import control_plane
from tests.support.kubernetes.cluster import TestKubernetes
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.network import private_network
from tests.support.kubernetes.real_cluster import RealKubernetes
from tests.support.maven import Unavailable
from tests.support.seaweed import SeaweedServer, binary


@pytest.fixture(scope="session", params=["fakes", "control_plane"])
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane | None]:
    """A real control plane, or None where the fakes do."""
    if os.geteuid() != 0:
        pytest.skip("only root can give programs a hosts file of their own")
    if reason := etcd.missing():
        pytest.skip(reason)
    if request.param == "fakes":
        yield None
        return
    if reason := control_plane.missing():
        pytest.skip(reason)
    try:
        with private_network(), ControlPlane(tmp_path_factory.mktemp("plane")) as made:
            yield made
            unused = ", ".join(made.unused_rights())
            print(f"\nrights of the operator that these tests never used: {unused or 'none'}")
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def bucket(plane: ControlPlane | None) -> Iterator[SeaweedServer]:
    if binary() is None:
        pytest.skip("weed is not installed (make setup)")
    with SeaweedServer() as server:
        yield server


@pytest.fixture(scope="session")
def member(plane: ControlPlane | None) -> Iterator[etcd.EtcdCluster]:
    with etcd.EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
async def kubernetes(
    plane: ControlPlane | None, tmp_path: Path, bucket: SeaweedServer, member: etcd.EtcdCluster
) -> AsyncIterator[TestKubernetes]:
    made = (
        TestKubernetes(tmp_path, bucket, member)
        if plane is None
        else RealKubernetes(plane, tmp_path, bucket, member)
    )
    async with made:
        yield made
    if plane is not None:
        assert plane.refusals() == []  # by the rights of its own account

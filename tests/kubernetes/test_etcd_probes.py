"""What the probes of the managed etcd say of a member that has an alarm: by a real etcd."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from kafscale.operator.parts.etcd import managed_etcd
from tests.support import etcd
from tests.unit.operator.examples import DEFAULTS, cluster

SMALL = 64 << 10


@pytest.fixture
def full() -> Iterator[etcd.EtcdCluster]:
    """An etcd whose quota is used up: it takes nothing new until a person has made room."""
    if reason := etcd.missing():
        pytest.skip(reason)
    with etcd.EtcdCluster(extra=[f"--quota-backend-bytes={SMALL}"]) as one:
        with pytest.raises(AssertionError, match="space exceeded"):
            _fill(one)
        assert "NOSPACE" in one.ctl("alarm", "list")
        yield one


def _fill(one: etcd.EtcdCluster) -> None:
    for number in range(SMALL):
        one.ctl("put", f"key-{number}", "x" * (SMALL // 4))


def test_a_member_without_space_is_not_ready_and_is_not_restarted(full: etcd.EtcdCluster) -> None:
    members = managed_etcd(cluster(etcd={}), DEFAULTS)[-1]
    (container,) = members["spec"]["template"]["spec"]["containers"]
    assert not _answers(full, container["readinessProbe"])
    assert _answers(full, container["livenessProbe"])


def _answers(one: etcd.EtcdCluster, probe: dict[str, Any]) -> bool:
    url = f"http://{one.endpoints[0]}{probe['httpGet']['path']}"
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        return False
    return True

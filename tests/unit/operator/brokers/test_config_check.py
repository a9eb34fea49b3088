"""No rendered broker refuses its own settings, and wrong settings are refused before a roll."""

from typing import Any

import pytest

from kafscale.operator.brokers.config_check import config_problem, rendered
from kafscale.operator.parts.brokers import environment
from kafscale.settings.loading import load
from kafscale.settings.sources import VARIABLES
from tests.unit.operator.examples import cluster

SPECS: list[dict[str, Any]] = [
    {},
    {"s3": {"bucket": "b", "endpoint": "http://s3:8333", "credentialsSecretRef": "keys"}},
    {"brokers": {"external": {"type": "LoadBalancer"}}},
    {"config": {"cacheSize": "512Mi", "segmentBytes": 1000000, "flushIntervalMs": 5}},
    {"config": {"broker": {"topics.autoCreate": "false", "fluvio.enabled": "false"}}},
]


@pytest.mark.parametrize("spec", SPECS)
def test_brokers_take_what_the_operator_writes(spec: dict[str, Any]) -> None:
    wanted = cluster(**spec)
    assert config_problem(wanted) is None
    names = {one["name"] for one in environment(wanted, ("e:1",), "/p")}
    ours = {name for name in names if name.startswith("KAFSCALE_")} - {"KAFSCALE_CONFIG"}
    assert ours <= VARIABLES.keys()


def test_the_settings_that_brokers_see_are_those_of_the_spec() -> None:
    wanted = cluster(s3={"bucket": "b", "region": "eu-1"}, config={"flushIntervalMs": 5})
    config = load(None, rendered(environment(wanted, ("http://e:1",), "/team/p")), {})
    assert (config.s3.bucket, config.s3.region) == ("b", "eu-1")
    assert config.etcd.endpoints == ["http://e:1"]
    assert config.etcd.prefix == "/team/p"
    assert config.storage.flush_interval_ms == 5
    assert config.broker.advertised_host == "broker-0.production-brokers.default.svc"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"topics.autoCreat": "false"}, "did you mean topics.autoCreate"),
        ({"topics.defaultPartitions": "none"}, "topics.defaultPartitions"),
        ({"s3.bucket": "other"}, "the operator sets it itself"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, str], words: str) -> None:
    assert words in (config_problem(cluster(config={"broker": settings})) or "")

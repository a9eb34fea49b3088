"""Connections get the files that the broker itself does not need."""

import resource
from collections.abc import Iterator

import pytest

from kafscale.broker.operating import file_limit
from kafscale.settings.config import Config
from kafscale.settings.sections import NetworkSection, S3Section


@pytest.fixture(autouse=True)
def _limits_stay() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("files", "kept_back", "connections"),
    [(1024, 192, 832), (20_000, 192, 19_808), (256, 192, 128), (1, 192, 1)],
)
def test_what_is_kept_back_comes_first(files: int, kept_back: int, connections: int) -> None:
    assert file_limit.connections_within(files, kept_back) == connections


def test_the_soft_limit_is_raised_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(256, 1024)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    config = file_limit.within(Config(network=NetworkSection(max_connections=500)))
    assert config.network.max_connections == 500
    assert limits[-1] == (500 + 192, 1024)
    config = file_limit.within(Config(network=NetworkSection(max_connections=10_000)))
    assert config.network.max_connections == 1024 - 192
    assert limits[-1] == (1024, 1024)


def test_a_bucket_has_files_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    config = file_limit.within(Config(s3=S3Section(bucket="b", concurrency=300)))
    assert config.network.max_connections == 1024 - 192 - 300


def test_a_limit_that_cannot_be_raised_counts_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: int, pair: tuple[int, int]) -> None:
        raise ValueError("not permitted")

    unlimited = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, unlimited))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert file_limit.within(Config()).network.max_connections == 1024 - 192
    monkeypatch.setattr(resource, "getrlimit", lambda _: (unlimited, unlimited))
    assert file_limit.within(Config()).network.max_connections == 10_000

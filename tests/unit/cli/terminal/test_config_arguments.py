"""Options of `serve` become a configuration."""

import argparse
from pathlib import Path

import pytest

from kafscale.cli.terminal.config_arguments import add_config_arguments, config_of
from kafscale.settings.config import Config
from kafscale.settings.values import ConfigError


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})


def config(*words: str) -> Config:
    parser = argparse.ArgumentParser()
    add_config_arguments(parser)
    return config_of(parser.parse_args(words))


def test_no_option_is_the_default_configuration() -> None:
    assert config() == Config()


def test_options_switches_and_set_reach_their_settings() -> None:
    found = config(
        "--port", "1", "--memory", "--set", "storage.flushBytes=1Mi", "--set", "s3.region=x"
    )
    assert found.broker.port == 1
    assert found.use_memory_s3
    assert (found.storage.flush_bytes, found.s3.region) == (2**20, "x")


def test_a_file_is_read_and_an_option_beats_it(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text("broker: {port: 1, rack: r}\n")
    found = config("--config", str(file), "--port", "2").broker
    assert (found.port, found.rack) == (2, "r")


def test_an_unknown_key_is_refused_as_written() -> None:
    with pytest.raises(ConfigError, match=r"storage\.flushByte: no such setting; did you mean"):
        config("--set", "storage.flushByte=1")

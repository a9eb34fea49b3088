"""The proxy's file: what it takes, and one line about what is wrong."""

from pathlib import Path

import pytest

from kafscale.proxy.settings import check, load, read_settings
from kafscale.settings.values import ConfigError

UPSTREAM = {"kafka": {"bootstrap_servers": ["a:1", "[::1]:2"]}}


def test_the_seeds_mapping_is_read() -> None:
    settings = read_settings(
        UPSTREAM
        | {
            "mapping": {
                "virtual_partitions": 100,
                "physical_partitions": 10,
                "topics": {
                    "high-volume-events": {"virtual_partitions": 1000, "physical_partitions": 100},
                    "metrics.*": {"virtual_partitions": 50, "physical_partitions": 5},
                },
            }
        },
        {},
    )
    check(settings)
    rules = settings.rules
    assert rules.layout_of("any").virtual_partitions == 100
    assert rules.layout_of("high-volume-events").physical_partitions == 100
    assert rules.layout_of("metrics.cpu").virtual_partitions == 50
    assert settings.bootstrap == [("a", 1), ("::1", 2)]


def test_arguments_come_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text("kafka: {bootstrap_servers: [a:1]}\nlisten: {address: 'b:2'}\n")
    settings = load(file, "c:3,d:4", "e:5")
    assert settings.bootstrap == [("c", 3), ("d", 4)]
    assert settings.listen.address == "e:5"


def test_a_password_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    sasl = {"username": "u", "password": "${SECRET}"}
    settings = read_settings({"kafka": {"sasl": sasl}}, {"SECRET": "s3"})
    assert settings.password.reveal() == "s3"
    file = tmp_path / "password"
    file.write_text("s4\n")
    settings = read_settings({"kafka": {"sasl": {"password_file": str(file)}}}, {})
    assert settings.password.reveal() == "s4"
    with pytest.raises(ConfigError, match="SECRET is not set"):
        read_settings({"kafka": {"sasl": sasl}}, {})


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({}, "upstream"),
        (UPSTREAM | {"mapping": {"virtual_partitions": 3, "physical_partitions": 2}}, "divide"),
        (UPSTREAM | {"mapping": {"virtual_partitions": 1, "physical_partitions": 2}}, "fewer"),
        (UPSTREAM | {"mapping": {"offset_range": 5}}, "offset range"),
        (UPSTREAM | {"id": -1}, "id"),
        (UPSTREAM | {"listen": {"address": "x"}}, "listen.address"),
        (UPSTREAM | {"listen": {"tls": {}}}, "cert_path"),
        (
            UPSTREAM
            | {"listen": {"tls": {"cert_path": "c", "key_path": "k", "require_client_cert": True}}},
            "ca_cert_path",
        ),
        (UPSTREAM | {"listen": {"sasl": {}}}, "users_file"),
        (UPSTREAM | {"ledger_topic": "orders"}, "ledger_topic"),
        ({"kafka": {"bootstrap_servers": ["a"]}}, "HOST:PORT"),
        (
            {"kafka": {"bootstrap_servers": ["a:1"], "sasl": {"mechanism": "GSSAPI"}}},
            "mechanism",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tree: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check(read_settings(tree, {}))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="lisen"):
        read_settings({"lisen": {}}, {})

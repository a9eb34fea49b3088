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
        (UPSTREAM | {"listeners": "A://h:1", "listen": {"address": "h:1"}}, "one listener alone"),
        (UPSTREAM | {"listeners": "A://h:1,A://h:2"}, "2 listeners have the name A"),
        (UPSTREAM | {"listeners": "A:1"}, "listeners: not NAME"),
        (UPSTREAM | {"listeners": "A://0.0.0.0:1"}, "advertisedHost"),
        (UPSTREAM | {"listeners": [{"name": "A", "port": 1, "protocol": "SSL"}]}, "certificate"),
        (UPSTREAM | {"listeners": [{"name": "SASL_PLAINTEXT", "port": 1}]}, "needs usersFile"),
        (
            UPSTREAM
            | {
                "listen": {"sasl": {"users_file": "u"}},
                "listeners": [{"name": "SASL_PLAINTEXT", "port": 1, "mechanisms": ["OAUTHBEARER"]}],
            },
            "OAUTHBEARER|mechanisms",
        ),
        (UPSTREAM | {"listeners": [{"name": "A", "port": 1, "prot": "SSL"}]}, "prot"),
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


def test_listeners_have_the_brokers_two_forms() -> None:
    settings = read_settings(UPSTREAM | {"listeners": "inside://h:1,outside://g:2"}, {})
    check(settings)
    names = [(one.name, one.address, one.told) for one in settings.front_doors]
    assert names == [("INSIDE", ("h", 1), ("h", 0)), ("OUTSIDE", ("g", 2), ("g", 0))]
    row = {
        "name": "OUTSIDE",
        "protocol": "SASL_SSL",
        "host": "0.0.0.0",
        "port": 3,
        "advertisedHost": "kafka.example",
        "advertisedPort": 4,
        "firstBrokerPort": 5,
        "mechanisms": ["scram-sha-512"],
        "usersFile": "own",
    }
    listen = {
        "tls": {"cert_path": "c", "key_path": "k", "ca_cert_path": "a"},
        "sasl": {"users_file": "all"},
    }
    tree = UPSTREAM | {"listen": listen, "listeners": [row, {"name": "SASL_PLAINTEXT", "port": 6}]}
    outside, other = read_settings(tree, {}).front_doors
    assert outside.told == ("kafka.example", 4)
    assert outside.first_broker_port == 5
    assert outside.tls == ("c", "k", "a", "none")  # what it does not say, listen.tls says
    assert (outside.mechanisms, outside.users_file) == (("SCRAM-SHA-512",), "own")
    assert (other.tls, other.mechanisms, other.users_file) == (None, ("PLAIN",), "all")


def test_one_listener_needs_no_name() -> None:
    listen = {"address": "h:1", "advertised_address": "g:2", "first_broker_port": 7}
    (only,) = read_settings(UPSTREAM | {"listen": listen}, {}).front_doors
    assert only == ("", ("h", 1), ("g", 2), 7, None, (), "")
    (only,) = read_settings(UPSTREAM, {}).front_doors
    assert only.address == ("127.0.0.1", 9092)

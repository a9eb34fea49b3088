"""Several listeners: the two forms they are written in, and what is refused."""

from pathlib import Path

import pytest

from kafscale.model.endpoints import Endpoint
from kafscale.settings.config import Config
from kafscale.settings.listeners import ListenerSetting
from kafscale.settings.loading import load
from kafscale.settings.values import ConfigError

SHORT = "INTERNAL://127.0.0.1:9092, external://127.0.0.2:9094"
TOLD = "EXTERNAL://broker.example:19094"


def endpoints(config: Config) -> dict[str, Endpoint]:
    return {row.name: row.advertised(row.port) for row in config.all_listeners}


def refusal(listeners: object, **flags: object) -> str:
    with pytest.raises(ConfigError) as refused:
        load(None, {}, {"listeners": listeners} | flags)
    return str(refused.value)


def test_a_broker_without_listeners_has_one_that_is_called_plaintext() -> None:
    assert endpoints(load(None, {}, {})) == {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}


def test_variables_and_flags_have_the_short_form() -> None:
    env = {"KAFSCALE_LISTENERS": SHORT, "KAFSCALE_ADVERTISED_LISTENERS": TOLD}
    wanted = {
        "INTERNAL": Endpoint("127.0.0.1", 9092),
        "EXTERNAL": Endpoint("broker.example", 19094),
    }
    assert endpoints(load(None, env, {})) == wanted
    flags: dict[str, object] = {"--listeners": SHORT, "--advertised-listeners": TOLD}
    assert endpoints(load(None, {}, flags)) == wanted


def test_a_file_has_a_list(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(
        "listeners:\n"
        "  - {name: internal, port: 9092}\n"
        "  - {name: EXTERNAL, protocol: plaintext, host: '::1', port: 0,"
        " advertisedHost: broker.example, advertisedPort: 19094}\n"
    )
    inner, outer = load(file, {}, {}).all_listeners
    assert inner == ListenerSetting(name="INTERNAL", protocol="PLAINTEXT", port=9092)
    assert outer.advertised(4711) == Endpoint("broker.example", 19094)


def test_a_port_of_any_kind_is_advertised_as_bound() -> None:
    (row,) = load(None, {}, {"--listeners": "A://127.0.0.1:0"}).all_listeners
    assert row.advertised(4711) == Endpoint("127.0.0.1", 4711)


def test_what_is_given_last_is_the_whole_list(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text("listeners: [{name: A, port: 1}, {name: B, port: 2}]\n")
    assert endpoints(load(file, {"KAFSCALE_LISTENERS": "C://127.0.0.1:3"}, {})) == {
        "C": Endpoint("127.0.0.1", 3)
    }


@pytest.mark.parametrize(
    ("listeners", "words"),
    [
        ("A://127.0.0.1:1,A://127.0.0.1:2", "listeners: 2 listeners have the name A"),
        ("A://127.0.0.1:1,B://127.0.0.1:1", "listeners: 2 listeners have the port 1"),
        ("A://0.0.0.0:1", "listeners: A: 0.0.0.0 is reachable from other machines"),
        ("A://127.0.0.1:9093", "broker.metricsPort: expected another port than listener A"),
        ("A://127.0.0.1", "listeners: expected NAME://host:port"),
        ("A://:1", "listeners: expected NAME://host:port"),
        ("A://127.0.0.1:70000", "listeners: expected NAME://host:port"),
        ("1://127.0.0.1:1", "listeners: expected names of letters"),
        ([{"name": "A"}], "listeners: expected NAME://host:port"),
        ([{"name": "A", "port": 1, "prot": 2}], "listeners: expected NAME://host:port"),
        ([{"name": "A", "port": 1, "protocol": "HTTP"}], "listeners: A: expected a protocol of"),
    ],
)
def test_listeners_that_cannot_be_are_refused(listeners: object, words: str) -> None:
    assert refusal(listeners).startswith(words)


def test_a_wildcard_is_never_advertised() -> None:
    open_to_all: dict[str, object] = {"--allow-insecure-bind": True}
    assert "clients cannot connect to 0.0.0.0" in refusal("A://0.0.0.0:1", **open_to_all)
    flags = open_to_all | {"listeners": "A://0.0.0.0:1", "advertisedListeners": "A://out:2"}
    assert endpoints(load(None, {}, flags)) == {"A": Endpoint("out", 2)}
    assert "cannot connect to ::" in refusal("A://127.0.0.1:1", advertisedListeners="A://[::]:1")


def test_what_is_advertised_must_have_a_listener() -> None:
    told = "advertisedListeners"
    assert refusal("A://127.0.0.1:1", **{told: "B://out:1"}) == f"{told}: there is no listener B"
    twice = [{"name": "A", "port": 1, "advertisedHost": "out"}]
    assert refusal(twice, **{told: "A://out:1"}).startswith(f"{told}: listener A says itself")


@pytest.mark.parametrize("key", ["port", "advertisedPort"])
def test_the_settings_of_a_single_listener_have_no_meaning_beside_several(key: str) -> None:
    assert refusal(SHORT, **{f"broker.{key}": 7}).startswith(f"broker.{key}: has no meaning")

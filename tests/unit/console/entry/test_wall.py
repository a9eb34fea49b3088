import pytest

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.entry.wall import Wall, read_networks

WALL = Wall("127.0.0.1", frozenset({"console.example"}), read_networks(["10.0.0.0/8"]), "/k/")


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1:8080", "[::1]:8080", "console.example", "CONSOLE.example:443",
     "kafscale.localhost:8080"],
)  # fmt: skip
def test_hosts_that_are_ours_come_in(host: str) -> None:
    WALL.check_host(host)


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1.evil.example", "10.1.2.3", "[", "0.0.0.0"]
)
def test_any_other_host_is_refused(host: str | None) -> None:
    with pytest.raises(ApiRefusal) as refused:
        WALL.check_host(host)
    assert refused.value.status == 421


def test_a_console_on_all_addresses_does_not_answer_to_that_address() -> None:
    with pytest.raises(ApiRefusal):
        Wall("0.0.0.0").check_host("0.0.0.0:8080")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost:8080"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://console.example"},
    ],
)
def test_changes_come_from_our_own_page(headers: dict[str, str]) -> None:
    WALL.check_origin({"Host": "localhost:8080", "X-Kafscale": "1", **headers})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Kafscale": "1"},
        {"X-Kafscale": "1", "Origin": "http://evil.example"},
        {"X-Kafscale": "1", "Origin": "null"},
        {"X-Kafscale": "1", "Origin": "http://localhost:9999"},
        {"X-Kafscale": "1", "Sec-Fetch-Site": "same-site"},
        {"X-Kafscale": "1", "Sec-Fetch-Site": "cross-site"},
        {"X-Kafscale": "1", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost:8080"},
    ],
)
def test_what_another_site_may_have_sent_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ApiRefusal) as refused:
        WALL.check_origin({"Host": "localhost:8080", **headers})
    assert refused.value.code == "cross_site"


def test_what_a_proxy_says_counts_only_if_it_is_trusted() -> None:
    said = {
        "X-Forwarded-For": "1.1.1.1, 2.2.2.2, 10.0.0.9",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Prefix": "/from-proxy",
    }
    assert WALL.address("10.0.0.1", said) == "2.2.2.2"
    assert WALL.is_secure("10.0.0.1", said)
    assert WALL.base("10.0.0.1", said) == "/from-proxy/"
    assert WALL.address("3.3.3.3", said) == "3.3.3.3"
    assert not WALL.is_secure("3.3.3.3", said)
    assert WALL.base("3.3.3.3", said) == "/k/"


@pytest.mark.parametrize("prefix", ['/"><script>', "/a b", "/%2e", "//evil.example\\"])
def test_a_prefix_that_is_no_plain_path_does_not_count(prefix: str) -> None:
    assert WALL.base("10.0.0.1", {"X-Forwarded-Prefix": prefix}) == "/k/"

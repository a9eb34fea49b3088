"""Listeners with TLS and SASL: what they need, and what is refused."""

import pytest

from kafscale.settings.config import Config
from kafscale.settings.loading import load
from kafscale.settings.security import mechanisms_of, tls_of
from kafscale.settings.values import ConfigError

CERTIFICATE = {"tls.certFile": "c.pem", "tls.keyFile": "k.pem"}


def loaded(listeners: object, **more: object) -> Config:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return load(None, {}, {"listeners": listeners, **CERTIFICATE, **named})


def row(protocol: str, **more: object) -> list[dict[str, object]]:
    return [{"name": "A", "protocol": protocol, "port": 1, **more}]


def test_a_listener_has_what_the_sections_say_unless_it_says_more() -> None:
    config = loaded(
        [
            {"name": "A", "protocol": "SASL_SSL", "port": 1},
            {
                "name": "B",
                "protocol": "SSL",
                "port": 2,
                "certFile": "own.pem",
                "keyFile": "own.key",
                "caFile": "ca.pem",
                "clientAuth": "required",
            },
            {"name": "C", "protocol": "SASL_PLAINTEXT", "port": 3, "mechanisms": ["scram-sha-512"]},
        ]
    )
    first, second, third = config.all_listeners
    assert tls_of(config.tls, first) == ("c.pem", "k.pem", None, "none", "DEFAULT", "1.2")
    assert tls_of(config.tls, second) == (
        "own.pem",
        "own.key",
        "ca.pem",
        "required",
        "DEFAULT",
        "1.2",
    )
    assert tls_of(config.tls, third) is None
    found = [mechanisms_of(config.sasl, one) for one in (first, second, third)]
    assert found == [("SCRAM-SHA-256", "SCRAM-SHA-512"), (), ("SCRAM-SHA-512",)]


@pytest.mark.parametrize(
    ("listeners", "more", "words"),
    [
        (row("SSL", certFile="x"), {}, "certFile and keyFile belong together"),
        (row("SSL", clientAuth="required"), {}, "set tls.caFile"),
        (row("SSL"), {"tls_clientAuth": "requested"}, "set tls.caFile"),
        (row("SASL_SSL", mechanisms=["GSSAPI"]), {}, "expected mechanisms of SCRAM-SHA-256"),
        (row("SASL_SSL", mechanisms=["PLAIN"]), {}, "sasl.usersFile"),
        (
            row("SASL_PLAINTEXT", mechanisms=["PLAIN"]),
            {"sasl_usersFile": "users"},
            "set sasl.allowPlainWithoutTls",
        ),
        (row("SASL_SSL", mechanisms=["OAUTHBEARER"]), {}, "sasl.oauth.jwksUrl"),
        (row("SASL_SSL"), {"sasl_mechanisms": ""}, "needs a mechanism"),
        (row("SSL"), {"tls_principalMappingRules": "RULE:("}, "tls.principalMappingRules"),
        (row("SASL_SSL"), {"sasl_adminUser": "a"}, "sasl.adminPasswordFile"),
        *(
            (row("SASL_SSL"), {"sasl.oauth.jwksUrl": url}, "expected https://")
            for url in (
                "http://issuer",
                "http://127.0.0.1.issuer",
                "http://localhost@issuer",
                "http://[",
                "file:///jwks",
            )
        ),
        (row("SSL", host="0.0.0.0", advertisedHost="b"), {}, "authenticates no client"),
    ],
)
def test_what_cannot_be_secured_is_refused(
    listeners: object, more: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
        loaded(listeners, **more)


@pytest.mark.parametrize(
    "listener",
    [
        row("SASL_SSL", host="0.0.0.0", advertisedHost="b"),
        row("SASL_PLAINTEXT", host="0.0.0.0", advertisedHost="b"),
        row("SSL", host="0.0.0.0", advertisedHost="b", clientAuth="required", caFile="ca.pem"),
    ],
)
def test_a_listener_that_authenticates_may_be_reachable(listener: object) -> None:
    assert loaded(listener).all_listeners[0].host == "0.0.0.0"


def test_a_certificate_is_needed() -> None:
    with pytest.raises(ConfigError, match="needs a certificate"):
        load(None, {}, {"listeners": row("SSL")})
    with pytest.raises(ConfigError, match=r"tls\.keyFile"):
        load(None, {}, {"tls.certFile": "c.pem"})


def test_brokers_behind_one_address_lead_pulsar_clients_on_without_tls_only() -> None:
    settings = {"pulsar.listener": "A", "pulsar.proxyThroughServiceUrl": True}
    rows = [{"name": "A", "port": 1, "protocol": "SSL"}]
    with pytest.raises(ConfigError, match=r"pulsar\.proxyThroughServiceUrl: expected a pulsar"):
        load(None, {}, {"listeners": rows, **CERTIFICATE, **settings})
    rows[0]["protocol"] = "PLAINTEXT"
    assert load(None, {}, {"listeners": rows, **settings}).pulsar.proxy_through_service_url

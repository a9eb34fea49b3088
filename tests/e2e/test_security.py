"""TLS and logins by real clients: what they show when it works, and when it must not.

One broker with a listener of every kind serves all tests here.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import AGAINST, watched
from tests.support import secured
from tests.support.maven import Unavailable
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    PLAIN_PASSWORD,
    PLAIN_USER,
    RoundTrip,
    SecuredJava,
    SecuredProcess,
    Settings,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="the settings are Kafscale's"),
]
TOPIC = "secured"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredProcess]:
    process = SecuredProcess(tmp_path_factory.mktemp("secured"))
    with watched(process):
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        for future in admin.create_topics([NewTopic(TOPIC, 1)]).values():
            future.result(30)
        yield process


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredJava | None]:
    try:
        client = SecuredJava(tmp_path_factory.mktemp("java"))
    except Unavailable as reason:
        print(f"no Java client: {reason}")
        yield None
        return
    yield client
    client.close()


@pytest.fixture(params=["confluent", "kafka-python", "aiokafka", "java"])
def round_trip(request: pytest.FixtureRequest, java: SecuredJava | None) -> RoundTrip:
    if request.param == "java":
        if java is None:
            pytest.skip("the Java client cannot be had here")
        return java
    by_name: dict[str, RoundTrip] = {
        "confluent": secured.by_confluent,
        "kafka-python": secured.by_kafka_python,
        "aiokafka": secured.by_aiokafka,
    }
    return by_name[request.param]


def good_ways(broker: SecuredProcess) -> list[tuple[str, Settings]]:
    """A listener, and settings that its clients get in with."""
    return [
        ("SSL", secured.with_tls(broker)),
        ("MUTUAL", secured.with_certificate(broker, broker.authority, "alice")),
        *(
            ("SASL_SSL", secured.with_password(broker, mechanism, ADMIN, ADMIN_PASSWORD))
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ),
        (
            "SASL_PLAINTEXT",
            secured.with_password(broker, "SCRAM-SHA-512", ADMIN, ADMIN_PASSWORD, "SASL_PLAINTEXT"),
        ),
        ("SASL_SSL", secured.with_password(broker, "PLAIN", PLAIN_USER, PLAIN_PASSWORD)),
        ("SASL_SSL", secured.with_token(broker, broker.issuer.token("olga"))),
    ]


def test_clients_get_in_by_every_way(broker: SecuredProcess, round_trip: RoundTrip) -> None:
    problems = {
        f"{listener} {settings.get('sasl.mechanism', '')}": problem
        for listener, settings in good_ways(broker)
        if (problem := round_trip(broker.at(listener), TOPIC, settings))
    }
    assert not problems


def test_clients_that_prove_nothing_are_told_so(
    broker: SecuredProcess, round_trip: RoundTrip, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a client's exception does not say why, its log does."""
    wrong = "wrong-password"
    refused = {
        "password": secured.with_password(broker, "SCRAM-SHA-256", ADMIN, wrong),
        "user": secured.with_password(broker, "SCRAM-SHA-512", "unknown", ADMIN_PASSWORD),
        "plain": secured.with_password(broker, "PLAIN", PLAIN_USER, wrong),
        "token": secured.with_token(broker, broker.issuer.token("olga", aud="another")),
    }
    for what, settings in refused.items():
        problem = round_trip(broker.at("SASL_SSL"), TOPIC, settings)
        assert problem, what
        if what != "token":  # aiokafka says of a bad token only that it lost the connection
            assert "auth" in f"{problem}\n{caplog.text}".lower(), f"{what}: {problem}"
        caplog.clear()


def test_certificates_of_another_authority_are_refused_by_both_sides(
    broker: SecuredProcess, round_trip: RoundTrip
) -> None:
    stranger = broker.stranger
    assert round_trip(broker.at("SSL"), TOPIC, secured.with_tls(broker, stranger))
    assert round_trip(
        broker.at("MUTUAL"), TOPIC, secured.with_certificate(broker, stranger, "alice")
    )
    assert round_trip(broker.at("MUTUAL"), TOPIC, secured.with_tls(broker))

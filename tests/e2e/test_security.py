"""TLS and logins by real clients: what they show when it works, and when it must not.

One broker with a listener of every kind serves all tests here.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import AGAINST, watched
from tests.support import secured
from tests.support.apache_kafka import VERSION
from tests.support.java import on_the_jvm
from tests.support.maven import Unavailable, classpath
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


def test_tools_of_apache_make_users_and_delegation_tokens(
    broker: SecuredProcess, tmp_path: Path
) -> None:
    try:
        jars = ":".join(
            classpath(f"org.apache.kafka:{name}:{VERSION}")
            for name in ("kafka_2.13", "kafka-tools")
        )
    except Unavailable as reason:
        pytest.skip(str(reason))
    file = tmp_path / "admin.properties"
    login = secured.with_password(broker, "SCRAM-SHA-256", ADMIN, ADMIN_PASSWORD)
    lines = secured.java_properties(broker.at("SASL_SSL"), login)
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def run(tool: str, *words: str) -> str:
        command = on_the_jvm(jars, tool, "--bootstrap-server", broker.at("SASL_SSL"))
        done = subprocess.run(
            [*command, "--command-config", str(file), *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    configs, user = "kafka.admin.ConfigCommand", ("--entity-type", "users", "--entity-name", "tina")
    run(configs, "--alter", *user, "--add-config", "SCRAM-SHA-512=[password=of-tina]")
    assert "SCRAM-SHA-512=iterations=4096" in run(configs, "--describe", *user)
    tina = secured.with_password(broker, "SCRAM-SHA-512", "tina", "of-tina")
    assert secured.by_confluent(broker.at("SASL_SSL"), TOPIC, tina) == ""
    tokens = "org.apache.kafka.tools.DelegationTokenCommand"
    made = run(
        tokens, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:tina"
    )
    row = made.strip().splitlines()[-1].split()
    listed = run(tokens, "--describe", "--owner-principal", f"User:{ADMIN}")
    assert row[0] in listed
    run(tokens, "--expire", "--expiry-time-period", "-1", "--hmac", row[1])
    assert row[0] not in run(tokens, "--describe", "--owner-principal", f"User:{ADMIN}")

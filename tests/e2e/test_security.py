"""TLS and logins by real clients: what they show when it works, and when it must not.

One broker with a listener of every kind serves all tests here.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.e2e.conftest import AGAINST, watched
from tests.support import secured
from tests.support.apache_kafka import VERSION
from tests.support.java import on_the_jvm
from tests.support.maven import Unavailable, classpath
from tests.support.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    CLOSED,
    DENIED_PASSWORD,
    DENIED_USER,
    PLAIN_PASSWORD,
    PLAIN_USER,
    TOPIC,
    SecuredProcess,
    Settings,
    java_properties,
)
from tests.support.secured_clients import (
    ASK_NOTHING_OF_THE_CLUSTER,
    KNOW_NO_TOKENS,
    LIBRARIES,
    PROGRAMS,
    Deed,
    SecuredClient,
    SecuredProgram,
    by_confluent,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(AGAINST == "apache", reason="the settings are Kafscale's"),
]
ALL_CLIENTS = (*LIBRARIES, *PROGRAMS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredProcess]:
    process = SecuredProcess(tmp_path_factory.mktemp("secured"))
    with watched(process):
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        made = [NewTopic(TOPIC, 1), NewTopic(CLOSED, 1)]
        for future in admin.create_topics(made).values():
            future.result(30)
        strong = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        dora = UserScramCredentialUpsertion(DENIED_USER, strong, DENIED_PASSWORD.encode())
        admin.alter_user_scram_credentials([dora])[DENIED_USER].result(30)
        for future in admin.create_acls(list(rights_of_dora())).values():
            future.result(30)
        yield process


def rights_of_dora() -> Iterator[AclBinding]:
    for operation in (AclOperation.READ, AclOperation.WRITE):
        yield AclBinding(
            ResourceType.TOPIC,
            TOPIC,
            ResourcePatternType.LITERAL,
            f"User:{DENIED_USER}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )


@pytest.fixture(scope="module")
def client_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SecuredClient]]:
    """Clients by name, each made once."""
    made: dict[str, SecuredClient] = dict(LIBRARIES)
    missing: dict[str, str] = {}

    def get(name: str) -> SecuredClient:
        if name not in made and name not in missing:
            try:
                made[name] = PROGRAMS[name](tmp_path_factory.mktemp(name))
            except Unavailable as reason:
                missing[name] = str(reason)
        if name in missing:
            pytest.skip(f"{name}: {missing[name]}")
        return made[name]

    yield get
    for client in made.values():
        if isinstance(client, SecuredProgram):
            client.close()


@pytest.fixture(params=ALL_CLIENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def act(name: str, client_of: Callable[[str], SecuredClient]) -> SecuredClient:
    return client_of(name)


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


def test_clients_get_in_by_every_way(broker: SecuredProcess, name: str, act: SecuredClient) -> None:
    problems = {
        f"{listener} {settings.get('sasl.mechanism', '')}": problem
        for listener, settings in good_ways(broker)
        if not ("token" in settings and name in KNOW_NO_TOKENS)
        if (problem := act(broker.at(listener), "round-trip", TOPIC, settings))
    }
    assert not problems


def test_clients_that_prove_nothing_are_told_so(
    broker: SecuredProcess, name: str, act: SecuredClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a client's exception does not say why, its log does."""
    wrong = "wrong-password"
    refused = {
        "password": secured.with_password(broker, "SCRAM-SHA-256", ADMIN, wrong),
        "user": secured.with_password(broker, "SCRAM-SHA-512", "unknown", ADMIN_PASSWORD),
        "plain": secured.with_password(broker, "PLAIN", PLAIN_USER, wrong),
    }
    if name not in KNOW_NO_TOKENS:
        refused["token"] = secured.with_token(broker, broker.issuer.token("olga", aud="another"))
        refused["expired"] = secured.with_token(broker, broker.issuer.token("olga", -3600))
    for what, settings in refused.items():
        problem = act(broker.at("SASL_SSL"), "round-trip", TOPIC, settings)
        assert problem, what
        # These say of a bad token only that they lost the connection.
        if not (name in ("aiokafka", "kafkajs") and "token" in settings):
            assert "auth" in f"{problem}\n{caplog.text}".lower(), f"{what}: {problem}"
        caplog.clear()


def test_certificates_of_another_authority_are_refused_by_both_sides(
    broker: SecuredProcess, act: SecuredClient, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = broker.stranger
    refused = {
        "SSL": secured.with_tls(broker, stranger),
        "MUTUAL": secured.with_certificate(broker, stranger, "alice"),
        "MUTUAL ": secured.with_tls(broker),
    }
    for listener, settings in refused.items():
        problem = act(broker.at(listener.strip()), "round-trip", TOPIC, settings)
        assert problem, listener
        if listener == "SSL":  # with TLS 1.3 a client learns later that its own is refused
            assert re.search("(?i)certificate|ssl|tls", f"{problem}\n{caplog.text}"), problem
        caplog.clear()


def test_clients_are_told_what_they_are_denied(
    broker: SecuredProcess, name: str, act: SecuredClient, caplog: pytest.LogCaptureFixture
) -> None:
    login = secured.with_password(broker, "SCRAM-SHA-256", DENIED_USER, DENIED_PASSWORD)
    denied: dict[Deed, str] = {"round-trip": "topic", "join": "group", "acls": "cluster"}
    for deed, what in denied.items():
        if deed == "acls" and name in ASK_NOTHING_OF_THE_CLUSTER:
            continue
        problem = act(broker.at("SASL_SSL"), deed, CLOSED, login)
        if (name, deed) == ("kafkajs", "join"):  # its words for every refusal at this point
            assert "KafkaJSGroupCoordinatorNotFound" in problem
            continue
        assert re.search("(?i)authoriz", f"{problem}\n{caplog.text}"), f"{what}: {problem}"
        caplog.clear()


def test_tools_of_apache_make_users_and_delegation_tokens(
    broker: SecuredProcess, client_of: Callable[[str], SecuredClient], tmp_path: Path
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
    lines = java_properties(broker.at("SASL_SSL"), login)
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
    assert by_confluent(broker.at("SASL_SSL"), "round-trip", TOPIC, tina) == ""
    tokens = "org.apache.kafka.tools.DelegationTokenCommand"
    made = run(
        tokens, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:tina"
    )
    row = made.strip().splitlines()[-1].split()
    listed = run(tokens, "--describe", "--owner-principal", f"User:{ADMIN}")
    assert row[0] in listed
    run(tokens, "--renew", "--renew-time-period", "3600000", "--hmac", row[1])
    java, by_token = client_of("java"), secured.with_delegation(broker, row[0], row[1])
    assert java(broker.at("SASL_SSL"), "round-trip", TOPIC, by_token) == ""
    run(tokens, "--expire", "--expiry-time-period", "-1", "--hmac", row[1])
    assert row[0] not in run(tokens, "--describe", "--owner-principal", f"User:{ADMIN}")
    problem = java(broker.at("SASL_SSL"), "round-trip", TOPIC, by_token)
    assert "auth" in problem.lower(), problem

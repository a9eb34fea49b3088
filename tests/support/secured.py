"""A broker with a listener of every kind, and clients that log in.

In this room: one broker for many tests, and a round trip by each client library, given the settings
of librdkafka's and Java's words.
Next door: certificates and tokens (certificates.py), the Java program (java/Secured.java).
"""

import asyncio
import json
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.helpers
import kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.support.broker import KafscaleProcess
from tests.support.certificates import Authority, TokenIssuer
from tests.support.java import SOURCES, compiled
from tests.support.ports import free_port

ADMIN, ADMIN_PASSWORD = "admin", "the-admins-own-password"
PLAIN_USER, PLAIN_PASSWORD = "paula", "plain=password"
JAVA_VERSION = "4.3.1"
_WITHIN_S = 30.0
_PATIENCE_MS = 15000  # of clients that are refused, and try again
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
LISTENERS = ("PLAINTEXT", "SSL", "MUTUAL", "SASL_PLAINTEXT", "SASL_SSL", "SHORT")


class SecuredProcess(KafscaleProcess):
    """Listens in every way that there is; only PLAINTEXT, for administration, asks no client."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, env)
        self.secrets = folder / "secrets"
        self.secrets.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(self.secrets, "authority")
        self.stranger = Authority(self.secrets, "stranger")
        self.own = self.authority.issue("broker", file_name="broker")
        self.issuer = TokenIssuer(self.secrets)
        self.ports = {name: free_port() for name in LISTENERS} | {"PLAINTEXT": self.port}
        self.users_file = self.secrets / "users"
        self.config_file = folder / "broker.yaml"

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def prepare(self) -> None:
        self.users_file.write_text(f"# of PLAIN\n{PLAIN_USER}={PLAIN_PASSWORD}\n")
        (self.secrets / "admin").write_text(f"{ADMIN_PASSWORD}\n")
        (self.secrets / "token-secret").write_text("a-secret-of-the-whole-fleet")
        rows: dict[str, dict[str, object]] = {
            "PLAINTEXT": {},
            "SSL": {},
            "MUTUAL": {"protocol": "SSL", "clientAuth": "required"},
            "SASL_PLAINTEXT": {"mechanisms": MECHANISMS[:2]},
            "SASL_SSL": {"mechanisms": MECHANISMS},
        }
        listeners = [
            {"name": name, "port": self.ports[name], "advertisedHost": "localhost", **row}
            for name, row in rows.items()
        ]
        del listeners[0]["advertisedHost"]  # the harness asks 127.0.0.1
        settings = {
            "listeners": listeners,
            "tls": {
                "certFile": str(self.own.certificate),
                "keyFile": str(self.own.key),
                "caFile": str(self.authority.file),
                "principalMappingRules": "RULE:^CN=([^,]*),.*$/$1/L,DEFAULT",
                "metrics": True,
            },
            "sasl": {
                "usersFile": str(self.users_file),
                "adminUser": ADMIN,
                "adminPasswordFile": str(self.secrets / "admin"),
                "tokenSecretFile": str(self.secrets / "token-secret"),
                "oauth": {
                    "jwksFile": str(self.issuer.keys_file),
                    "issuer": self.issuer.url,
                    "audiences": ["kafscale"],
                },
            },
        }
        self.config_file.write_text(json.dumps(settings))

    def environment(self) -> dict[str, str]:
        env = super().environment()
        del env["KAFSCALE_BROKER_PORT"]
        return {**env, "KAFSCALE_CONFIG": str(self.config_file)}


Settings = dict[str, str]  # in librdkafka's words


def with_tls(broker: SecuredProcess, authority: Authority | None = None) -> Settings:
    trusted = authority or broker.authority
    return {"security.protocol": "SSL", "ssl.ca.location": str(trusted.file)}


def with_certificate(broker: SecuredProcess, authority: Authority, name: str) -> Settings:
    issued = authority.issue(name)
    return with_tls(broker) | {
        "ssl.certificate.location": str(issued.certificate),
        "ssl.key.location": str(issued.key),
    }


def with_password(
    broker: SecuredProcess, mechanism: str, user: str, password: str, protocol: str = "SASL_SSL"
) -> Settings:
    return with_tls(broker) | {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def with_token(broker: SecuredProcess, token: str) -> Settings:
    return with_tls(broker) | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "token": token,  # of these tests
    }


def by_confluent(bootstrap: str, topic: str, settings: Settings) -> str:
    """The error of a round trip, "" if it succeeds."""
    given: dict[str, Any] = {**settings, "bootstrap.servers": bootstrap, "log_level": 0}
    token = given.pop("token", None)
    if token is not None:
        given["oauth_cb"] = lambda _: (token, 2e9)
    outcomes: list[KafkaError | None] = []  # the first one counts; None: the record was stored
    given["error_cb"] = outcomes.append
    producer = Producer(given | {"message.timeout.ms": _PATIENCE_MS})
    producer.produce(topic, b"hello", partition=0, on_delivery=lambda bad, _: outcomes.append(bad))
    while not outcomes:
        producer.poll(_WITHIN_S)
    problem = outcomes[0]
    producer.purge()
    if problem is not None:
        return problem.str()
    consumer = Consumer(given | {"group.id": f"g-{uuid.uuid4()}"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.poll(_WITHIN_S)
        return "" if found is not None and found.error() is None else "nothing to read"
    except KafkaException as bad:
        return str(bad)
    finally:
        consumer.close()


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def by_kafka_python(bootstrap: str, topic: str, settings: Settings) -> str:
    given = _in_python(bootstrap, settings)
    if "token" in settings:
        given["sasl_oauth_token_provider"] = _Token(settings["token"])
    try:
        producer = kafka.KafkaProducer(
            **given, bootstrap_timeout_ms=_PATIENCE_MS, max_block_ms=_PATIENCE_MS
        )
        producer.send(topic, b"hello", partition=0).get(_WITHIN_S)
        producer.close()
        consumer = kafka.KafkaConsumer(**given, consumer_timeout_ms=int(_WITHIN_S * 1000))
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found = next(iter(consumer), None)
        consumer.close()
    except kafka.errors.KafkaError as bad:
        return f"{type(bad).__name__}: {bad}"
    return "" if found is not None else "nothing to read"


class _AsyncToken(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def by_aiokafka(bootstrap: str, topic: str, settings: Settings) -> str:
    given = _in_python(bootstrap, settings)
    given["ssl_context"] = aiokafka.helpers.create_ssl_context(
        **{
            name.removeprefix("ssl_"): given.pop(name)
            for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
            if name in given
        }
    )
    if "token" in settings:
        given["sasl_oauth_token_provider"] = _AsyncToken(settings["token"])

    async def round_trip() -> str:
        producer = aiokafka.AIOKafkaProducer(**given)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"hello", partition=0)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**given, auto_offset_reset="earliest")
        try:
            await consumer.start()
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            await asyncio.wait_for(consumer.getone(), _WITHIN_S)
        finally:
            await consumer.stop()
        return ""

    try:
        return asyncio.run(round_trip())
    except aiokafka.errors.KafkaError as bad:
        return f"{type(bad).__name__}: {bad}"


_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def _in_python(bootstrap: str, settings: Settings) -> dict[str, Any]:
    named = {_PYTHON_NAMES[name]: value for name, value in settings.items() if name != "token"}
    return {"bootstrap_servers": bootstrap, **named}


class SecuredJava:
    """The Java client in one process for many round trips."""

    def __init__(self, folder: Path) -> None:
        client = f"org.apache.kafka:kafka-clients:{JAVA_VERSION}"
        # The client's own way to tokens needs libraries that it does not bring.
        readers = (
            "com.fasterxml.jackson.core:jackson-databind:2.21.2",
            "org.bitbucket.b_c:jose4j:0.9.6",
        )
        command = compiled(SOURCES / "Secured.java", client, *readers)
        # The client reads its token from a file that must be allowed when it starts.
        self._token_file = folder / "token-of-java"
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{self._token_file}"
        self._process = subprocess.Popen(
            [command[0], allowed, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._folder = folder

    def __call__(self, bootstrap: str, topic: str, settings: Settings) -> str:
        file = self._folder / f"{uuid.uuid4()}.properties"
        lines = java_properties(bootstrap, settings)
        if "token" in settings:
            self._token_file.write_text(settings["token"])
            lines |= {
                "sasl.oauthbearer.token.endpoint.url": f"file://{self._token_file}",
                "sasl.login.callback.handler.class": (
                    f"{_LOGINS}.oauthbearer.OAuthBearerLoginCallbackHandler"
                ),
                "sasl.jaas.config": f"{_LOGINS}.oauthbearer.OAuthBearerLoginModule required;",
            }
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{topic} {file}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        return "" if said == "OK" else said

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


_LOGINS = "org.apache.kafka.common.security"


def java_properties(bootstrap: str, settings: Settings) -> dict[str, str]:
    """The same settings in Java's words."""
    given = {
        "bootstrap.servers": bootstrap,
        "security.protocol": settings["security.protocol"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": settings["ssl.ca.location"],
        "max.block.ms": str(_PATIENCE_MS),
        "default.api.timeout.ms": "30000",
    }
    if "ssl.key.location" in settings:
        both = settings["ssl.key.location"].replace("-key.pem", "-both.pem")
        given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": both}
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism:
        given["sasl.mechanism"] = mechanism
    if "sasl.username" in settings:
        kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        given["sasl.jaas.config"] = (
            f'{_LOGINS}.{kind} required username="{settings["sasl.username"]}" '
            f'password="{settings["sasl.password"]}"{settings.get("jaas", "")};'
        )
    return given


RoundTrip = Callable[[str, str, Settings], str]

"""What clients do at a secured broker, one function or program per client library.

A deed is a round trip (a record is written to a topic and one is read), joining a group that reads,
staying (records are written for five seconds over one producer), or a question or change of access
control lists, which concerns the cluster. All clients are given settings in librdkafka's words, and
all answer with the text of their own error, "" if there is none.
Next door: the broker and the settings (secured.py), the programs (java/Secured.java,
go/secured.go, js/secured.js).
"""

import asyncio
import json
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import aiokafka
import aiokafka.abc
import aiokafka.helpers
import kafka
import kafka.admin
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.support.clients.go import SOURCES as GO_SOURCES
from tests.support.clients.kafkajs import SOURCES as JS_SOURCES
from tests.support.debian import program
from tests.support.golang import go_program
from tests.support.java import SOURCES as JAVA_SOURCES
from tests.support.java import compiled
from tests.support.npm import node_program
from tests.support.secured import JAVA_LOGINS, TOPIC, Settings, java_properties

JAVA_VERSION = "4.3.1"
_WITHIN_S = 30.0
_PATIENCE_MS = 15000  # of clients that are refused, and try again

_RECORDS, _PAUSE_S = 20, 0.25  # of a client that stays

Deed = Literal["round-trip", "join", "stay", "acls"]
# Address, deed, topic or group, settings: the error, "" if there is none.
SecuredClient = Callable[[str, Deed, str, Settings], str]


# -- confluent-kafka ------------------------------------------------------------------------------


def by_confluent(bootstrap: str, deed: Deed, name: str, settings: Settings) -> str:
    given: dict[str, Any] = {**settings, "bootstrap.servers": bootstrap, "log_level": 0}
    token = given.pop("token", None)
    if token is not None:
        given["oauth_cb"] = lambda _: (token, 2e9)
    try:
        match deed:
            case "round-trip":
                return _confluent_round_trip(given, name)
            case "join":
                return _confluent_join(given, name)
            case "stay":
                return _confluent_stay(given, name)
            case "acls":
                admin = AdminClient(given)
                for made in admin.create_acls([_ONE_ACL]).values():
                    made.result(_WITHIN_S)
    except KafkaException as bad:
        return str(bad)
    return ""


# Its question for lists gives an empty one where the broker answers with an error.
_ONE_ACL = AclBinding(
    ResourceType.TOPIC,
    TOPIC,
    ResourcePatternType.LITERAL,
    "User:unknown",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


def _confluent_round_trip(given: dict[str, Any], topic: str) -> str:
    outcomes: list[KafkaError | None] = []  # the first one counts; None: the record was stored
    watched = given | {"error_cb": outcomes.append}
    producer = Producer(watched | {"message.timeout.ms": _PATIENCE_MS})
    producer.produce(topic, b"hello", partition=0, on_delivery=lambda bad, _: outcomes.append(bad))
    while not outcomes:
        producer.poll(_WITHIN_S)
    problem = outcomes[0]
    producer.purge()
    if problem is not None:
        return problem.str()
    consumer = Consumer(given | {"group.id": f"g-{uuid.uuid4()}", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return _confluent_read(consumer)
    finally:
        consumer.close()


def _confluent_stay(given: dict[str, Any], topic: str) -> str:
    problems: list[str] = []
    producer = Producer(given | {"message.timeout.ms": _PATIENCE_MS})
    for _ in range(_RECORDS):
        producer.produce(
            topic,
            b"stay",
            partition=0,
            on_delivery=lambda bad, _: problems.append(bad.str()) if bad else None,
        )
        producer.flush(_WITHIN_S)
        time.sleep(_PAUSE_S)
    return "; ".join(problems)


def _confluent_join(given: dict[str, Any], group: str) -> str:
    consumer = Consumer(given | {"group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        return _confluent_read(consumer)
    finally:
        consumer.close()


def _confluent_read(consumer: Consumer) -> str:
    found = consumer.poll(_WITHIN_S)
    if found is None:
        return "nothing to read"
    problem = found.error()
    return "" if problem is None else problem.str()


# -- kafka-python ---------------------------------------------------------------------------------


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def by_kafka_python(bootstrap: str, deed: Deed, name: str, settings: Settings) -> str:
    given = _in_python(bootstrap, settings)
    if "token" in settings:
        given["sasl_oauth_token_provider"] = _Token(settings["token"])
    try:
        match deed:
            case "round-trip":
                return _kafka_python_round_trip(given, name)
            case "stay":
                return _kafka_python_stay(given, name)
            case "join":
                consumer = kafka.KafkaConsumer(TOPIC, **given, group_id=name, **_KAFKA_PYTHON_READS)
                return _kafka_python_read(consumer)
            case "acls":
                admin = kafka.admin.KafkaAdminClient(**given)
                try:
                    admin.describe_acls(_any_acl())
                finally:
                    admin.close()
    except kafka.errors.KafkaError as bad:
        return f"{type(bad).__name__}: {bad}"
    return ""


_KAFKA_PYTHON_READS = {
    "auto_offset_reset": "earliest",
    "consumer_timeout_ms": int(_WITHIN_S * 1000),
}


def _any_acl() -> Any:
    anything = kafka.admin.ResourcePatternFilter(
        kafka.admin.ResourceType.ANY, None, kafka.admin.ACLResourcePatternType.ANY
    )
    return kafka.admin.ACLFilter(
        None, None, kafka.admin.ACLOperation.ANY, kafka.admin.ACLPermissionType.ANY, anything
    )


def _kafka_python_round_trip(given: dict[str, Any], topic: str) -> str:
    producer = kafka.KafkaProducer(
        **given, bootstrap_timeout_ms=_PATIENCE_MS, max_block_ms=_PATIENCE_MS
    )
    try:
        producer.send(topic, b"hello", partition=0).get(_WITHIN_S)
    finally:
        producer.close()
    consumer = kafka.KafkaConsumer(**given, **_KAFKA_PYTHON_READS)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    return _kafka_python_read(consumer)


def _kafka_python_stay(given: dict[str, Any], topic: str) -> str:
    producer = kafka.KafkaProducer(**given, bootstrap_timeout_ms=_PATIENCE_MS)
    try:
        for _ in range(_RECORDS):
            producer.send(topic, b"stay", partition=0).get(_WITHIN_S)
            time.sleep(_PAUSE_S)
    finally:
        producer.close()
    return ""


def _kafka_python_read(consumer: kafka.KafkaConsumer) -> str:
    try:
        return "" if next(iter(consumer), None) is not None else "nothing to read"
    finally:
        consumer.close()


# -- aiokafka -------------------------------------------------------------------------------------


class _AsyncToken(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def by_aiokafka(bootstrap: str, deed: Deed, name: str, settings: Settings) -> str:
    """It has no request that the cluster refuses."""
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
    doing = {"join": _aiokafka_join, "stay": _aiokafka_stay}.get(deed, _aiokafka_round_trip)
    try:
        asyncio.run(doing(given, name))
    except aiokafka.errors.KafkaError as bad:
        return f"{type(bad).__name__}: {bad}"
    return ""


async def _aiokafka_round_trip(given: dict[str, Any], topic: str) -> None:
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


async def _aiokafka_stay(given: dict[str, Any], topic: str) -> None:
    producer = aiokafka.AIOKafkaProducer(**given)
    try:
        await producer.start()
        for _ in range(_RECORDS):
            await producer.send_and_wait(topic, b"stay", partition=0)
            await asyncio.sleep(_PAUSE_S)
    finally:
        await producer.stop()


async def _aiokafka_join(given: dict[str, Any], group: str) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        TOPIC, **given, group_id=group, auto_offset_reset="earliest"
    )
    try:
        await consumer.start()
        await asyncio.wait_for(consumer.getone(), _WITHIN_S)
    finally:
        await consumer.stop()


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


# -- kcat -----------------------------------------------------------------------------------------


def kcat(folder: Path) -> SecuredClient:
    """It takes no token, and has no request that the cluster refuses."""
    command = program("kcat")

    def run(bootstrap: str, settings: Settings, words: list[str]) -> str:
        given = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        given += ["-X", f"message.timeout.ms={_PATIENCE_MS}"] if words[0] == "-P" else []
        done = subprocess.run(
            [command, "-b", bootstrap, *given, *words],
            input="hello",
            capture_output=True,
            text=True,
            timeout=2 * _WITHIN_S,
            check=False,
        )
        return f"{done.stderr} ended with {done.returncode}" if done.returncode else ""

    def act(bootstrap: str, deed: Deed, name: str, settings: Settings) -> str:
        if deed == "join":
            reading = ["-G", name, "-c", "1", "-X", "auto.offset.reset=earliest", TOPIC]
            return run(bootstrap, settings, reading)
        problem = run(bootstrap, settings, ["-P", "-t", name, "-p", "0"])
        return problem or run(
            bootstrap, settings, ["-C", "-t", name, "-p", "0", "-o", "beginning", "-c", "1"]
        )

    return act


# -- programs in other languages ------------------------------------------------------------------


class SecuredProgram:
    """A client in a process of its own, for many deeds: a line each, and a line of answer."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, bootstrap: str, deed: Deed, name: str, settings: Settings) -> str:
        file = self._folder / f"{uuid.uuid4()}.settings"
        file.write_text(self.written(bootstrap, settings))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{deed} {name or '-'} {file}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        return "" if said == "OK" else said or f"ended with {self._process.wait(10)}"

    def written(self, bootstrap: str, settings: Settings) -> str:
        """The settings as the program reads them."""
        return json.dumps(settings | {"bootstrap.servers": bootstrap})

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


def franz_go(folder: Path) -> SecuredProgram:
    return SecuredProgram([go_program(GO_SOURCES), "secured", "franz"], folder)


def sarama(folder: Path) -> SecuredProgram:
    return SecuredProgram([go_program(GO_SOURCES), "secured", "sarama"], folder)


def kafkajs(folder: Path) -> SecuredProgram:
    return SecuredProgram(node_program(JS_SOURCES / "secured.js"), folder)


class SecuredJava(SecuredProgram):
    """The Java client."""

    def __init__(self, folder: Path) -> None:
        client = f"org.apache.kafka:kafka-clients:{JAVA_VERSION}"
        # The client's own way to tokens needs libraries that it does not bring.
        readers = (
            "com.fasterxml.jackson.core:jackson-databind:2.21.2",
            "org.bitbucket.b_c:jose4j:0.9.6",
        )
        command = compiled(JAVA_SOURCES / "Secured.java", client, *readers)
        # The client reads its token from a file that must be allowed when it starts.
        self._token_file = folder / "token-of-java"
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{self._token_file}"
        super().__init__([command[0], allowed, *command[1:]], folder)

    def written(self, bootstrap: str, settings: Settings) -> str:
        lines = java_properties(bootstrap, settings)
        if "token" in settings:
            self._token_file.write_text(settings["token"])
            lines |= {
                "sasl.oauthbearer.token.endpoint.url": f"file://{self._token_file}",
                "sasl.login.callback.handler.class": (
                    f"{JAVA_LOGINS}.oauthbearer.OAuthBearerLoginCallbackHandler"
                ),
                "sasl.jaas.config": f"{JAVA_LOGINS}.oauthbearer.OAuthBearerLoginModule required;",
            }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


# What must be fetched or built, by name.
PROGRAMS: dict[str, Callable[[Path], SecuredClient]] = {
    "java": SecuredJava,
    "franz-go": franz_go,
    "sarama": sarama,
    "kafkajs": kafkajs,
    "kcat": kcat,
}
LIBRARIES: dict[str, SecuredClient] = {
    "confluent": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}
KNOW_NO_TOKENS = frozenset({"kcat"})
ASK_NOTHING_OF_THE_CLUSTER = frozenset({"kcat", "aiokafka"})

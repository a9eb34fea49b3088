"""Real clients behind one face, so that every test can ask each of them the same."""

from typing import Final

from tests.support.clients.aio import AioKafka
from tests.support.clients.apache_tools import ApacheTools
from tests.support.clients.base import Client
from tests.support.clients.confluent import Confluent
from tests.support.clients.go import FranzGo, Sarama
from tests.support.clients.java import Java2, Java4
from tests.support.clients.kafka_python import KafkaPython
from tests.support.clients.kafkajs import KafkaJs
from tests.support.clients.kcat import Kcat
from tests.support.clients.old_python import KafkaPython09, KafkaPython2, KafkaPython14, PyKafka

# Those that can be asked everything.
CLIENTS: Final[dict[str, type[Client]]] = {
    client.name: client for client in (Confluent, KafkaPython, AioKafka, Java4, Java2, Kcat)
}

# All there are, in the order of docs/clients.md; those not above know the questions of its columns.
EVERYONE: Final[dict[str, type[Client]]] = {
    client.name: client
    for client in (
        Java4,
        Java2,
        ApacheTools,
        Confluent,
        Kcat,
        KafkaPython,
        KafkaPython2,
        KafkaPython14,
        KafkaPython09,
        AioKafka,
        PyKafka,
        KafkaJs,
        FranzGo,
        Sarama,
    )
}

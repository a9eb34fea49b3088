"""Real clients behind one face, so that every test can ask each of them the same."""

from typing import Final

from tests.support.clients.aio import AioKafka
from tests.support.clients.base import Client
from tests.support.clients.confluent import Confluent
from tests.support.clients.java import Java2, Java4
from tests.support.clients.kafka_python import KafkaPython
from tests.support.clients.kcat import Kcat

CLIENTS: Final[dict[str, type[Client]]] = {
    client.name: client for client in (Confluent, KafkaPython, AioKafka, Java4, Java2, Kcat)
}
